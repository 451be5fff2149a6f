"""First steps from a runbook: its numbered steps with their commands, and its mitigations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwatch import runbooks
from stepwatch.collector.incidents.model import runbook_values
from stepwatch.signals.errors import StepwatchError

FIRST, MITIGATION = "First five minutes", "Mitigation"


class Step(NamedTuple):
    """One numbered step: its instruction and commands."""

    text: str
    commands: tuple[str, ...]


def steps(incident: Mapping[str, Any], section: str, collector: str) -> list[Step]:
    """Return the steps in a section of an incident's runbook, filled in; empty without a runbook.

    `collector` is the address for the commands.
    """
    values = {"collector": collector, **runbook_values(dict(incident))}
    try:
        page = runbooks.render(str(incident["runbook"]), values)
    except StepwatchError:  # an incident from another version
        return []
    match = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    parts = re.split(r"^\d+\. ", match[1], flags=re.MULTILINE)[1:] if match else []
    return [_step(part) for part in parts]


def _step(part: str) -> Step:
    fences = re.findall(r"```\w*\n(.*?)```", part, re.DOTALL)
    commands = [line.strip() for fence in fences for line in fence.splitlines() if line.strip()]
    prose = re.sub(r"```\w*\n.*?```", "\n\n", part, flags=re.DOTALL)
    return Step(" ".join(prose.split("\n\n")[0].split()), tuple(commands))
