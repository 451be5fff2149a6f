"""Exact sums of nanoseconds, without rounding or overflow, whatever the split."""

from __future__ import annotations

from typing import Any

import numpy as np

_LOW = np.uint64((1 << 32) - 1)
_SHIFT = np.uint64(32)
_TOO_MUCH = 1 << 64


def whole_sum(values: np.ndarray[tuple[int], np.dtype[Any]]) -> int:
    """Return the sum of fewer than 2**32 unsigned 64-bit numbers; 7,000 months overflow 64 bits.

    High and low halves are summed separately: [2**63, 2**63, 1] -> (2**31 + 2**31, 1) -> 2**64 + 1.
    """
    wide = values.astype(np.uint64)
    if len(wide) * int(wide.max(initial=0)) < _TOO_MUCH:  # nearly always
        return int(wide.sum())
    return (int((wide >> _SHIFT).sum()) << 32) + int((wide & _LOW).sum())
