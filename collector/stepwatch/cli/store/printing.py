"""What the actions on a store print in the same way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwatch.collector.store.upkeep.removal import Removed

SHOWN_JOBS = 20
"""Jobs and problems that a person is shown; `--json` has all."""


def print_pinned(pinned: list[Removed], summary: Callable[[list[Removed]], str]) -> None:
    """Say what is kept for incidents, if anything is."""
    if pinned:
        print(f"kept for incidents: {summary(pinned)}")


def print_json(document: dict[str, Any]) -> int:
    """Print a document for programs; returns the exit code 0."""
    print(json.dumps(document, indent=1))
    return 0


def print_more(count: int, noun: str) -> None:
    """Say how many a person is not shown."""
    if count > SHOWN_JOBS:
        print(f"... and {count - SHOWN_JOBS} more {noun}; --json has all")
