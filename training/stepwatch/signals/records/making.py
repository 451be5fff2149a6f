"""New records: some columns are given, all others are unknown."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from stepwatch.signals.arrays import AnyRows

from .dtypes import DTYPES
from .fields import UNKNOWN
from .vocabulary import Kind


def make_rows(kind: Kind, *shape: int, **columns: Any) -> AnyRows:
    """Return records of `kind`; `columns` broadcast to `shape`, other fields are unknown."""
    # As plain bytes: numpy fills rows field by field.
    data = _unknown_row(kind) * math.prod(shape)
    rows: AnyRows = np.frombuffer(data, dtype=DTYPES[kind]).reshape(shape)
    for name, values in columns.items():
        rows[name] = values
    return rows


@cache
def _unknown_row(kind: Kind) -> bytearray:
    row = np.zeros(1, dtype=DTYPES[kind])
    for name, unknown in UNKNOWN[kind].items():
        row[name] = unknown
    return bytearray(row.tobytes())
