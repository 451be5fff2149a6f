"""The median of a few values, as numpy has it to the last bit, in a quarter of the time.

`numpy.median` takes 25 us to look at its arguments; an evaluation asks for thirty medians, most of
them of twenty to sixty values.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.signals.arrays import Floats

_FEW = 512
"""Beyond so many values numpy's partition is quicker than a sort."""


TO_DEVIATION = 1.4826
"""Standard deviation over the median absolute deviation, of normal values."""


def median(values: Floats) -> float:
    """The median of `values` (any,); NaN where one of them is, or there is none."""
    count = len(values)
    if not 0 < count <= _FEW or values.dtype.kind != "f":
        return float(np.median(values)) if count else math.nan
    ordered = np.sort(values)
    if ordered[-1] != ordered[-1]:  # NaN is sorted behind all numbers
        return math.nan
    middle = count // 2
    if count % 2:
        return float(ordered[middle])
    # In the type of the values, as numpy takes the mean of the two.
    return float((ordered[middle - 1] + ordered[middle]) / ordered.dtype.type(2))
