"""The rows of one kind that arrived last, in a bounded table that grows as they come."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.signals.arrays import Column, Integers
from stepwatch.signals.wire import Rows

_FIRST_ROWS = 1024
_BLOCK = 2048
_NO_STEP = 1 << 40
"""Beyond any step, which has 32 bits."""


class NewestRows:
    """At most `most` rows of `dtype`, which has a field `step`; older ones are overwritten."""

    def __init__(self, dtype: np.dtype[np.void], most: int) -> None:
        self._most = most
        self._rows: Rows = np.zeros(0, dtype=dtype)
        self._arrived = 0
        self._least = np.zeros(0, dtype=np.int64)
        self._greatest = np.zeros(0, dtype=np.int64)
        """The least and the greatest step in each block of places: who wants a few steps looks at
        a few of a million rows."""

    def __len__(self) -> int:
        """Rows that there is room for."""
        return len(self._rows)

    @property
    def arrived(self) -> int:
        """Rows that ever came."""
        return self._arrived

    def add(self, columns: Mapping[str, Column]) -> None:
        """Take rows, as one array (rows,) for each field."""
        count = len(columns["step"])
        self._make_room(count)
        stored = min(count, len(self._rows))
        self._arrived += count - stored
        begin = self._arrived % max(1, len(self._rows))
        fits = min(stored, len(self._rows) - begin)  # the others begin at the front again
        for name, values in columns.items():
            self._rows[name][begin : begin + fits] = values[count - stored : count - stored + fits]
            self._rows[name][: stored - fits] = values[count - stored + fits :]
        self._arrived += stored
        self._mark(begin, begin + fits)
        self._mark(0, stored - fits)

    def of_steps(self, first: int, last: int) -> Rows:
        """Rows of steps `first` to `last`, in the order they arrived."""
        first, last = max(first, 0), max(last, 0)
        start = self._arrived % max(1, len(self._rows)) if self._arrived > len(self._rows) else 0
        blocks = np.flatnonzero((self._greatest >= first) & (self._least <= last))
        parts = [np.zeros(0, dtype=np.int64)]
        for run in np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1) if len(blocks) else ():
            begin = int(run[0]) * _BLOCK
            step = self._steps(begin, int(run[-1] + 1) * _BLOCK)
            parts.append(begin + np.flatnonzero((step >= first) & (step <= last)))
        order = np.concatenate(parts)
        return chosen(self._rows, np.concatenate([order[order >= start], order[order < start]]))

    def _steps(self, begin: int, end: int) -> Integers:
        """The steps of the rows at these places, of those that were taken."""
        steps: Integers = np.ascontiguousarray(self._rows[: self._arrived]["step"][begin:end])
        return steps

    def _mark(self, begin: int, end: int) -> None:
        """Note which steps lie in the blocks of places that were written."""
        for block in range(begin // _BLOCK, -(-end // _BLOCK)):
            step = self._steps(block * _BLOCK, (block + 1) * _BLOCK)
            self._least[block], self._greatest[block] = step.min(), step.max()

    def _make_room(self, count: int) -> None:
        needed = min(self._most, self._arrived + count)
        if needed <= len(self._rows):
            return
        # A power of two: the same length whether it grows at once or little by little.
        length = min(self._most, max(_FIRST_ROWS, 1 << (needed - 1).bit_length()))
        grown = np.zeros(length, dtype=self._rows.dtype)
        put(grown, slice(self._arrived), self._rows[: self._arrived])
        self._rows = grown
        more = -(-length // _BLOCK) - len(self._least)
        self._least = np.append(self._least, np.full(more, _NO_STEP))
        self._greatest = np.append(self._greatest, np.full(more, -1))
