"""The checks by name, in the order in which they run.

Each is a module with `check(place)`, which yields findings, and runs in a process of its own.
"""

from __future__ import annotations

from typing import NamedTuple


class Check(NamedTuple):
    """A check's limits."""

    seconds: float
    """It is ended after that."""
    timed: bool
    """Whether it measures times, and so runs alone."""


CHECKS = {
    "machine": Check(120, timed=False),
    "waits": Check(180, timed=False),
    "graphs": Check(90, timed=False),
    "compiled": Check(150, timed=False),
    "nccl": Check(90, timed=False),
    "unmarked": Check(120, timed=False),
    "probes": Check(120, timed=False),
    "recorded": Check(90, timed=False),
    "profiles": Check(120, timed=True),
    "timeline": Check(90, timed=True),
    "overhead": Check(120, timed=True),
    "doctor": Check(120, timed=True),
    "verdicts": Check(240, timed=True),
    "utilisation": Check(240, timed=True),
    "saves": Check(150, timed=True),
}
