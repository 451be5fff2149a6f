"""What is true of a fault in numbers, which the sentence of an incident may say."""

from __future__ import annotations

from typing import NamedTuple


class Actual(NamedTuple):
    """What is true of a fault: its rank, -1 where it has none; the first step it hits, and seconds
    of a usual step; times the peers' work, NaN where it has none; share of the throughput it takes
    while it lasts."""

    rank: int
    first_step: int
    step_seconds: float
    ratio: float
    lost: float
