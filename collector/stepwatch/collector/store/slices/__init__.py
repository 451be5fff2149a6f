"""Stored SLI slices: each new one is a row, and old rows are packed into one block a day."""

from stepwatch.collector.store.slices.reading import read_slices, read_sums
from stepwatch.collector.store.slices.rows import (
    SLICE,
    SLICE_SECONDS,
    Slice,
    put_slices,
    slices_of,
)

__all__ = [
    "SLICE",
    "SLICE_SECONDS",
    "Slice",
    "put_slices",
    "read_slices",
    "read_sums",
    "slices_of",
]
