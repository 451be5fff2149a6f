"""What is worth telling somebody about an incident: it opened, its cause changed, it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwatch.collector.incidents.model import OPEN, Incident
from stepwatch.collector.store.outbox import Notice

OPENED, CHANGED_CAUSE, RESOLVED = "opened", "changed-cause", "resolved"
"""Transitions of an incident; one that is merged into another or ends with its job is resolved."""


def notices_of(
    before: Mapping[str, Incident], moved: Iterable[Incident], now: float
) -> list[Notice]:
    """The transitions of incidents that moved, at `now` (Unix seconds), against those before.

    Each has a key of its own, so that a receiver knows what it has already.
    """
    found = []
    for incident in moved:
        transition = _transition(before.get(incident.id), incident)
        if transition is not None:
            key = f"{incident.id}:{transition}:{now:.3f}"
            document: dict[str, Any] = {
                "key": key,
                "transition": transition,
                "at": now,
                "incident": incident.document(),
            }
            found.append(Notice(key, incident.job, document))
    return found


def _transition(before: Incident | None, after: Incident) -> str | None:
    was_open = before is not None and before.state == OPEN
    if after.state != OPEN:
        return RESOLVED if was_open else None
    if not was_open or before is None:
        return OPENED
    return CHANGED_CAUSE if before.cause != after.cause else None
