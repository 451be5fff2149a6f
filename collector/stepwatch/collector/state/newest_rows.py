"""The rows of one kind that arrived last, in a bounded table that grows as they come."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.signals.arrays import Column
from stepwatch.signals.wire import Rows

_FIRST_ROWS = 1024


class NewestRows:
    """At most `most` rows of `dtype`, which has a field `step`; older ones are overwritten."""

    def __init__(self, dtype: np.dtype[np.void], most: int) -> None:
        self._most = most
        self._rows: Rows = np.zeros(0, dtype=dtype)
        self._arrived = 0

    def __len__(self) -> int:
        """Rows that there is room for."""
        return len(self._rows)

    def add(self, columns: Mapping[str, Column]) -> None:
        """Take rows, as one array (rows,) for each field."""
        count = len(columns["step"])
        self._make_room(count)
        left = min(count, len(self._rows))
        self._arrived += count - left
        begin = self._arrived % max(1, len(self._rows))
        fits = min(left, len(self._rows) - begin)  # the others begin at the front again
        for name, values in columns.items():
            self._rows[name][begin : begin + fits] = values[count - left : count - left + fits]
            self._rows[name][: left - fits] = values[count - left + fits :]
        self._arrived += left

    def of_steps(self, first: int, last: int) -> Rows:
        """Rows of steps `first` to `last`, in the order they arrived."""
        start = self._arrived % max(1, len(self._rows)) if self._arrived > len(self._rows) else 0
        rows = self._rows[: self._arrived]
        step = np.ascontiguousarray(rows["step"])
        order = np.flatnonzero((step >= max(first, 0)) & (step <= max(last, 0)))
        return chosen(rows, np.concatenate([order[order >= start], order[order < start]]))

    def _make_room(self, count: int) -> None:
        needed = min(self._most, self._arrived + count)
        if needed <= len(self._rows):
            return
        # A power of two: the same length whether it grows at once or little by little.
        length = min(self._most, max(_FIRST_ROWS, 1 << (needed - 1).bit_length()))
        grown = np.zeros(length, dtype=self._rows.dtype)
        put(grown, slice(self._arrived), self._rows[: self._arrived])
        self._rows = grown
