"""One slice of an SLI, as it is stored."""

from __future__ import annotations

from typing import NamedTuple

SLICE_SECONDS = 10


class Slice(NamedTuple):
    """One SLI over `seconds` from `start_s` (Unix seconds).

    `good` and `total` are device-seconds; `observed` and `expected` count step records. A slice of
    more than `SLICE_SECONDS` takes the place of all that start in it.
    """

    start_s: int
    version: int
    good: float
    total: float
    observed: int
    expected: int
    cumulative_good: float
    cumulative_total: float
    seconds: int = SLICE_SECONDS
