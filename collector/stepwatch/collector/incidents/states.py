"""An incident's states and severities, and its values for a runbook."""

from __future__ import annotations

from typing import Any

OPEN, RESOLVED, ENDED, MERGED = "open", "resolved", "ended", "merged"
STATES = (OPEN, RESOLVED, ENDED, MERGED)
UNKNOWN_NODE = "unknown"
INFO, ALERT = "info", "alert"
"""Severities: an incident that only informs, and one that raises an alert."""

_RUNBOOK_KEYS = ("job", "attempt", "rank", "node", "phase", "cause", "since_step")


def runbook_values(document: dict[str, Any]) -> dict[str, str]:
    """Return an incident's values for its runbook; unknown ones are left out, to stay visible."""
    values = {key: str(document[key]) for key in _RUNBOOK_KEYS}
    if document["rank"] < 0:
        del values["rank"]
    if document["node"] == UNKNOWN_NODE:
        del values["node"]
    return {**values, "incident": str(document["id"])}
