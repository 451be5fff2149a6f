"""Fast medians and quantiles of small arrays, bit-identical to numpy's.

`numpy.median` spends 25 us on argument checks, `numpy.quantile` 60; an evaluation computes thirty
medians, most over twenty to sixty values. These versions take a quarter of the time.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.signals.arrays import FloatMatrix, Floats, Vector

_FEW = 512
"""Above this count numpy's partition is faster than a sort."""


TO_DEVIATION = 1.4826
"""Standard deviation over the median absolute deviation, for normal values."""


def median(values: Floats) -> float:
    """Return the median of `values` (any,); NaN if any value is NaN, or without values."""
    count = len(values)
    if not 0 < count <= _FEW or values.dtype.kind != "f":
        return float(np.median(values)) if count else math.nan
    ordered = np.sort(values)
    if ordered[-1] != ordered[-1]:  # NaN sorts last
        return math.nan
    middle = count // 2
    if count % 2:
        return float(ordered[middle])
    # In the values' own type, as numpy averages the two.
    return float((ordered[middle - 1] + ordered[middle]) / ordered.dtype.type(2))


def medians(values: FloatMatrix) -> Vector:
    """Return the median of each row of `values` (rows, columns); NaN if any value is NaN."""
    columns = values.shape[1]
    if not 0 < columns <= _FEW or values.dtype.kind != "f":
        return np.asarray(np.median(values, axis=1))
    ordered = np.sort(values, axis=1)
    middle = columns // 2
    middles = ordered[:, middle]
    if not columns % 2:
        middles = (ordered[:, middle - 1] + middles) / ordered.dtype.type(2)
    return np.where(np.isnan(ordered[:, -1]), np.nan, middles)  # NaN sorts last


def quantiles(values: Vector, shares: tuple[float, ...]) -> list[float]:
    """Return the quantiles of `values` (any,), interpolated; NaN with a NaN.

    With values 1, 2, 4 and the share 0.75 it is half-way between the second and the third: 3.
    """
    ordered = np.sort(values)
    if ordered[-1] != ordered[-1]:  # NaN sorts last
        return [math.nan] * len(shares)
    found = []
    for share in shares:
        place = share * (len(ordered) - 1)
        index = int(place)
        low, high = float(ordered[index]), float(ordered[min(index + 1, len(ordered) - 1)])
        part = place - index
        # From the nearer side, as numpy does.
        near_low, near_high = low + (high - low) * part, high - (high - low) * (1.0 - part)
        found.append(near_low if part < 0.5 else near_high)
    return found
