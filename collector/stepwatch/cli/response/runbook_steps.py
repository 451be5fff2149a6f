"""First steps from an incident's runbook: its numbered steps with their commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwatch import runbooks
from stepwatch.collector.incidents.states import runbook_values
from stepwatch.collector.web.runbooks.steps import FIRST, MITIGATION, Step, steps_in
from stepwatch.signals.errors import StepwatchError

__all__ = ["FIRST", "MITIGATION", "Step", "steps"]


def steps(incident: Mapping[str, Any], section: str, collector: str) -> list[Step]:
    """Return the steps in a section of an incident's runbook, filled in; empty without a runbook.

    `collector` is the address for the commands.
    """
    values = {"collector": collector, **runbook_values(dict(incident))}
    try:
        page = runbooks.render(str(incident["runbook"]), values)
    except StepwatchError:  # an incident from another version
        return []
    return steps_in(page, section)
