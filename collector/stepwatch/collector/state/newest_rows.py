"""The newest rows with one kind, in a bounded table that grows on demand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.signals.arrays import Column, Integers
from stepwatch.signals.wire import Rows

_FIRST_ROWS = 1024
_BLOCK = 2048
_NO_STEP = 1 << 40
"""Above any step number, which has 32 bits."""


class NewestRows:
    """At most `most` rows with `dtype`, which has a field `step`; older rows are overwritten."""

    def __init__(self, dtype: np.dtype[np.void], most: int) -> None:
        self._most = most
        self._rows: Rows = np.zeros(0, dtype=dtype)
        self._arrived = 0
        self._least = np.zeros(0, dtype=np.int64)
        self._greatest = np.zeros(0, dtype=np.int64)
        """Least and greatest step in each block of positions.

        A query for a few steps reads only a few of a million rows.
        """

    def __len__(self) -> int:
        """Return the capacity in rows."""
        return len(self._rows)

    @property
    def arrived(self) -> int:
        """Number of rows ever added."""
        return self._arrived

    def add(self, columns: Mapping[str, Column]) -> None:
        """Add rows, given as one array (rows,) per field."""
        count = len(columns["step"])
        self._make_room(count)
        stored = min(count, len(self._rows))
        self._arrived += count - stored
        begin = self._arrived % max(1, len(self._rows))
        fits = min(stored, len(self._rows) - begin)  # the other rows wrap around to the front
        for name, values in columns.items():
            self._rows[name][begin : begin + fits] = values[count - stored : count - stored + fits]
            self._rows[name][: stored - fits] = values[count - stored + fits :]
        self._arrived += stored
        self._mark(begin, begin + fits)
        self._mark(0, stored - fits)

    def of_steps(self, first: int, last: int) -> Rows:
        """Return the rows for steps `first` to `last`, in arrival order."""
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
        """Return the steps of the stored rows at these positions."""
        steps: Integers = np.ascontiguousarray(self._rows[: self._arrived]["step"][begin:end])
        return steps

    def _mark(self, begin: int, end: int) -> None:
        """Update the step ranges of the written blocks."""
        for block in range(begin // _BLOCK, -(-end // _BLOCK)):
            step = self._steps(block * _BLOCK, (block + 1) * _BLOCK)
            self._least[block], self._greatest[block] = step.min(), step.max()

    def _make_room(self, count: int) -> None:
        needed = min(self._most, self._arrived + count)
        if needed <= len(self._rows):
            return
        # A power of two: the length is the same whether it grows at once or in small steps.
        length = min(self._most, max(_FIRST_ROWS, 1 << (needed - 1).bit_length()))
        grown = np.zeros(length, dtype=self._rows.dtype)
        put(grown, slice(self._arrived), self._rows[: self._arrived])
        self._rows = grown
        more = -(-length // _BLOCK) - len(self._least)
        self._least = np.append(self._least, np.full(more, _NO_STEP))
        self._greatest = np.append(self._greatest, np.full(more, -1))
