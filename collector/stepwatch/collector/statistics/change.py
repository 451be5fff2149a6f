"""Finds a permanent level change in a series: its place, size, and significance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.statistics.medians import TO_DEVIATION, median
from stepwatch.signals.arrays import Vector

_MEDIAN_COST = math.pi / 2
"""Variance of a median relative to a mean, for normal values."""
_LEAST_SPREAD = 0.005
"""Minimum spread as a share of the level: clocks and hosts drift."""
_CLIPPED_AT = 4.0
_MOST_KEPT = 0.8


class Change(NamedTuple):
    """A change between two levels, both medians; `split` is the first later index.

    `sure` is the difference over its standard error, assuming independent values around each level.
    """

    split: int
    earlier_level: float
    later_level: float
    sure: float


def change_in(values: Vector, least_before: int, least_after: int) -> Change | None:
    """Return the change that divides `values` best; None with too few values on either side.

    The index is where the cumulative sum of deviations from the mean is farthest from 0. Outliers
    are clipped to four standard deviations from the median. Levels and spread are medians, so an
    evaluation phase in one part has no effect.

    Example: 1, 1, 1, 2, 2, 2 has cumulative deviations -0.5, -1, -1.5, -1, -0.5, 0, so the change
    is at 3.
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
    """Return the variance factor of a mean for drifting values, relative to independent ones.

    The model is a first-order autoregression: each value keeps the share `correlation` of its
    predecessor.
    """
    power = float(residuals @ residuals)
    correlation = float(residuals[1:] @ residuals[:-1]) / power if power > 0 else 0.0
    correlation = min(max(correlation, 0.0), _MOST_KEPT)
    return (1.0 + correlation) / (1.0 - correlation)


def _spread(values: Vector) -> float:
    return TO_DEVIATION * median(np.abs(values - median(values)))
