"""The true figures of a fault, with which an incident's sentence is compared."""

from __future__ import annotations

from typing import NamedTuple


class Actual(NamedTuple):
    """The true figures of a fault.

    Args:
        rank: the fault's rank, -1 without one.
        first_step: the first step that it hits.
        step_seconds: seconds of a usual step.
        ratio: multiple of the peers' work, NaN without one.
        lost: share of the throughput that it takes while it lasts.
    """

    rank: int
    first_step: int
    step_seconds: float
    ratio: float
    lost: float
