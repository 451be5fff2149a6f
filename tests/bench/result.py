"""One row of the table, and how a loop is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Result(NamedTuple):
    """What was measured, beside its budget and what it is to be compared with."""

    title: str
    measured: str
    budget: str
    comparison: str


def microseconds(loop: Callable[[int], object], count: int, rounds: int = 7) -> float:
    """Best time per turn of `loop(count)`, in microseconds: noise only ever adds."""
    loop(count // 10)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        loop(count)
        times.append((time.perf_counter() - began) / count * 1e6)
    return min(times)
