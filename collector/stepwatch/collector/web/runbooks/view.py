"""Runbooks for the page: Markdown with an incident's values, as a tree.

The pages belong to a layer above the collector; the caller passes the function that reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepwatch.collector.incidents.states import OPEN, runbook_values
from stepwatch.collector.web.schema.runbook import RunbookAnswer
from stepwatch.signals.names import ALERT_ABOUT

from .steps import FIRST, steps_in
from .tree import sections_of

ReadRunbook = Callable[[str, Mapping[str, str]], str]
"""Reads an alert's runbook: (name, known values) to Markdown; raises StepwatchError."""


def runbook_document(
    name: str, incident: dict[str, Any] | None, collector: str, read: ReadRunbook
) -> RunbookAnswer:
    """Return the runbook `name`, filled in for `incident` if there is one.

    Raises:
        StepwatchError: the runbook does not exist.
    """
    values = {"collector": collector}
    if incident is not None:
        values |= runbook_values(incident)
    page = read(name, values)
    return {
        "name": name,
        "sections": sections_of(page),
        "first_steps": [
            {"text": step.text, "commands": [*step.commands]} for step in steps_in(page, FIRST)
        ],
        "incident": None if incident is None else incident["id"],
        "job": None if incident is None else incident["job"],
    }


def relevant(
    incidents: list[dict[str, Any]], name: str, query: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the requested incident, else the newest open one, if the runbook is about it."""
    kinds = {kind.value for kind in ALERT_ABOUT.get(name, ())}
    wanted, job = query.get("incident"), query.get("job")
    fitting = [
        item
        for item in incidents
        if (item["runbook"] == name or item["kind"] in kinds)
        and (wanted is None or item["id"] == wanted)
        and (job is None or item["job"] == job)
    ]
    return min(fitting, key=lambda item: (item["state"] != OPEN, -item["opened_at"]), default=None)
