"""A fast median for small arrays, bit-identical to numpy's.

`numpy.median` spends 25 us on argument checks; an evaluation computes thirty medians, most over
twenty to sixty values. This version takes a quarter of the time.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.signals.arrays import Floats

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
