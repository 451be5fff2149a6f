"""Output shared by the store actions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwatch.collector.store.upkeep.removal import Removed

SHOWN_JOBS = 20
"""Most jobs and problems in text output; `--json` has all."""


def print_pinned(pinned: list[Removed], summary: Callable[[list[Removed]], str]) -> None:
    """Print a summary of data pinned by incidents, if there is any."""
    if pinned:
        print(f"kept for incidents: {summary(pinned)}")


def print_json(document: dict[str, Any]) -> int:
    """Print a document for programs; return the exit code 0."""
    print(json.dumps(document, indent=1))
    return 0


def print_more(count: int, noun: str) -> None:
    """Print the number of rows that text output omits."""
    if count > SHOWN_JOBS:
        print(f"... and {count - SHOWN_JOBS} more {noun}; --json has all")
