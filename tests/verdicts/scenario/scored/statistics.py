"""Intervals for shares and rates. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

Z = 1.96
"""95 % of a normal distribution is within so many standard deviations."""


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval for a share (Wilson 1927); (0, 1) for a total of 0.

    Worked example: 8 of 10 is (0.49, 0.94).
    """
    if not total:
        return 0.0, 1.0
    share, square = hits / total, Z * Z / total
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * math.sqrt(share * (1 - share) / total + square / (4 * total))
    return max(0.0, middle - half), min(1.0, middle + half)


def poisson(events: int) -> tuple[float, float]:
    """Return the exact 95 % interval for the mean of a count (Garwood 1936).

    Worked example: for 0 events it is (0, 3.69), for 3 (0.62, 8.77).
    """
    low = 0.0 if not events else _mean_with(events - 1, 0.975)
    return low, _mean_with(events, 0.025)


def _mean_with(events: int, share: float) -> float:
    """Return the mean with which at most `events` happen with this probability; by bisection."""
    low, high = 0.0, 10.0 + 3.0 * (events + 1)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(events, middle) > share else (low, middle)
    return low


def _at_most(events: int, mean: float) -> float:
    term = total = math.exp(-mean)
    for number in range(1, events + 1):
        term *= mean / number
        total += term
    return total


def quantile(values: Iterable[float], ratio: float) -> float:
    """Return the smallest value that at least `ratio` of them do not exceed; NaN without any."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(ratio * len(ordered)) - 1)]
