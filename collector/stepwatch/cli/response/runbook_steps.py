"""What a runbook says to do first: its numbered steps with their commands, and its mitigations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwatch import runbooks
from stepwatch.collector.incidents.model import runbook_values
from stepwatch.signals.errors import StepwatchError

FIRST, MITIGATION = "First five minutes", "Mitigation"


class Step(NamedTuple):
    """One numbered step: what to do, and the commands for it."""

    text: str
    commands: tuple[str, ...]


def steps(incident: Mapping[str, Any], section: str, collector: str) -> list[Step]:
    """The steps of a section of an incident's runbook, filled in; none where there is no runbook.

    `collector` is the address that its commands ask.
    """
    values = {"collector": collector, **runbook_values(dict(incident))}
    try:
        page = runbooks.render(str(incident["runbook"]), values)
    except StepwatchError:  # of another version
        return []
    match = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    parts = re.split(r"^\d+\. ", match[1], flags=re.MULTILINE)[1:] if match else []
    return [_step(part) for part in parts]


def _step(part: str) -> Step:
    fences = re.findall(r"```\w*\n(.*?)```", part, re.DOTALL)
    commands = [line.strip() for fence in fences for line in fence.splitlines() if line.strip()]
    prose = re.sub(r"```\w*\n.*?```", "\n\n", part, flags=re.DOTALL)
    return Step(" ".join(prose.split("\n\n")[0].split()), tuple(commands))
