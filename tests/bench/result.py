"""One row of the table, and the timing of loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    """A measurement with its budget and a comparison."""

    title: str
    measured: str
    budget: str
    comparison: str


def microseconds(loop: Callable[[int], object], count: int, rounds: int = 7) -> float:
    """Return the best time per turn of `loop(count)` in microseconds: noise only adds."""
    loop(count // 10)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        loop(count)
        times.append((time.perf_counter() - began) / count * 1e6)
    return min(times)
