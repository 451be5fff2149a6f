"""Lengths of time that buckets may have."""

from __future__ import annotations

import math

DAY_SECONDS = 86_400
_LENGTHS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30),
    *(60, 120, 180, 300, 600, 900, 1200, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, DAY_SECONDS),
)
"""Seconds; from ten minutes on multiples of 5 minutes, from two hours on of an hour.

These are the lengths of a metric's buckets and of the SLI slices: so a length holds whole ones.
"""


def round_length(least: float) -> float:
    """Return the shortest round length with at least `least` seconds: 7 -> 10, 90,000 -> 2 days."""
    shortest = next((length for length in _LENGTHS if length >= least), None)
    return math.ceil(least / DAY_SECONDS) * DAY_SECONDS if shortest is None else shortest
