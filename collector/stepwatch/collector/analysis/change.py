"""A level that has changed for good: where in a series, by how much, and how surely."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.medians import TO_DEVIATION, median
from stepwatch.signals.arrays import Vector

_MEDIAN_COST = math.pi / 2
"""Variance of a median over that of a mean, of normal values."""
_LEAST_SPREAD = 0.005
"""Spread as a share of the level that every series has at least: clocks and hosts drift."""
_CLIPPED_AT = 4.0
_MOST_KEPT = 0.8


class Change(NamedTuple):
    """From value `at` on the series is at `after`, `before` until then; both are medians.

    `sure` is the difference over its standard error, as far as values around the two levels are
    independent of each other.
    """

    at: int
    before: float
    after: float
    sure: float


def change_in(values: Vector, least_before: int, least_after: int) -> Change | None:
    """The change that parts `values` best; None where fewer than so many would be on its sides.

    The best place is where the sum of what exceeds the mean is farthest from 0, single values far
    off the median cut to four deviations. Levels and spread are medians, so that an evaluation in
    one stretch moves nothing.

    Values 1, 1, 1, 2, 2, 2: less the mean -0.5, -1, -1.5, -1, -0.5, 0 -> the change is at 3.
    """
    count = len(values)
    if count < least_before + least_after:
        return None
    middle = median(values)
    clip_at = _CLIPPED_AT * max(_spread(values), _LEAST_SPREAD * abs(middle))
    cut = np.clip(values, middle - clip_at, middle + clip_at)
    sums = np.abs(np.cumsum(cut - cut.mean()))[least_before - 1 : count - least_after]
    index = least_before + int(np.argmax(sums))
    earlier, later = values[:index], values[index:]
    levels = median(earlier), median(later)
    residuals = np.concatenate([earlier - levels[0], later - levels[1]])
    spread = max(_spread(residuals), _LEAST_SPREAD * abs(middle))
    error = spread * math.sqrt(_MEDIAN_COST * (1.0 / len(earlier) + 1.0 / len(later)))
    error *= math.sqrt(_drift(np.clip(residuals, -clip_at, clip_at)))
    return Change(index, *levels, (levels[1] - levels[0]) / error if error > 0 else 0.0)


def _drift(residuals: Vector) -> float:
    """By how much the variance of a mean of such values is larger than of independent ones: what
    drifts stays where it is for a while.

    As of a series in which each value keeps the share `kept` of the one before.
    """
    power = float(residuals @ residuals)
    correlation = float(residuals[1:] @ residuals[:-1]) / power if power > 0 else 0.0
    correlation = min(max(correlation, 0.0), _MOST_KEPT)
    return (1.0 + correlation) / (1.0 - correlation)


def _spread(values: Vector) -> float:
    return TO_DEVIATION * median(np.abs(values - median(values)))
