"""Changes between two runs in configuration, code, data and environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PARTS = ("config", "model", "code", "data", "environment")


class Change(NamedTuple):
    """A fact that differs; None if a run lacks this name."""

    name: str
    before: str | None
    after: str | None


def changes(base_facts: Mapping[str, str], new_facts: Mapping[str, str]) -> list[Change]:
    """Return the differences, in the order of `PARTS`, then by name."""
    names = sorted({*base_facts, *new_facts}, key=lambda name: (_part(name), name))
    return [
        Change(name, base_facts.get(name), new_facts.get(name))
        for name in names
        if base_facts.get(name) != new_facts.get(name)
    ]


def _part(name: str) -> int:
    part = name.partition(".")[0]
    return PARTS.index(part) if part in PARTS else len(PARTS)
