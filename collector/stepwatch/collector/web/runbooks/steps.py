"""The numbered steps in a section of a runbook, with their commands."""

from __future__ import annotations

import re
from typing import NamedTuple

FIRST, MITIGATION = "First five minutes", "Mitigation"
"""Sections with numbered steps."""


class Step(NamedTuple):
    """One numbered step: its instruction and commands."""

    text: str
    commands: tuple[str, ...]


def steps_in(page: str, section: str) -> list[Step]:
    """Return the steps in a section of a runbook's Markdown; empty without the section."""
    match = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    parts = re.split(r"^\d+\. ", match[1], flags=re.MULTILINE)[1:] if match else []
    return [_step(part) for part in parts]


def _step(part: str) -> Step:
    fences = re.findall(r"```\w*\n(.*?)```", part, re.DOTALL)
    commands = [line.strip() for fence in fences for line in fence.splitlines() if line.strip()]
    prose = re.sub(r"```\w*\n.*?```", "\n\n", part, flags=re.DOTALL)
    return Step(" ".join(prose.split("\n\n")[0].split()), tuple(commands))
