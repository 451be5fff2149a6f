"""Rows in a group that were new to their ranks, with each row's batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.batches import Batches
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import TrackedAttempt
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.records import DTYPES, Kind

CLOCK_SET_NS = 1_000_000_000
"""A wall clock that moved this far against the monotonic clock was set."""


class Fresh(NamedTuple):
    """New rows in processing order, batch by batch; arrays (rows,).

    `to_wall_ns` converts monotonic time to wall time, `origin` is the batch within the group,
    `set_ns` the clock change until then, `received_s` the collector's receive time (Unix seconds).
    """

    rows: Rows
    to_wall_ns: Integers
    origin: Integers
    set_ns: Integers
    received_s: Vector

    @classmethod
    def nothing(cls, kind: Kind) -> Fresh:
        """Return an empty table with this kind."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(np.zeros(0, dtype=DTYPES[kind]), empty, empty, empty, np.zeros(0))

    @classmethod
    def from_batches(
        cls, rows: Rows, origin: Integers, batches: Batches, attempt: TrackedAttempt
    ) -> Fresh:
        """Return rows that come from the batches at `origin`."""
        set_ns = _set_ns(batches, attempt)[origin]
        return cls(rows, batches.to_wall_ns[origin], origin, set_ns, batches.received_s[origin])

    @property
    def steps(self) -> Integers:
        """Step number per row."""
        return np.asarray(self.rows["step"].astype(np.int64))

    @property
    def ends_ns(self) -> Integers:
        """Wall time per row in nanoseconds."""
        return np.asarray(self.rows["time_ns"].astype(np.int64) + self.to_wall_ns)

    def in_batches(self, first: int, last: int) -> Fresh:
        """Return the rows from batches `first` to `last - 1`."""
        low, high = np.searchsorted(self.origin, (first, last))
        if (low, high) == (0, len(self.rows)):
            return self
        part = np.arange(low, high)
        rows, to_wall_ns, origin, set_ns, received_s = self
        columns = to_wall_ns[part], origin[part], set_ns[part], received_s[part]
        return Fresh(chosen(rows, part), *columns)


def _set_ns(batches: Batches, attempt: TrackedAttempt) -> Integers:
    """Return how far each batch's node clock was set since its first batch (batches,).

    Two readings of one clock differ by less than `CLOCK_SET_NS`.
    """
    first = attempt.first_offsets
    moved = batches.to_wall_ns - np.array(
        [first.get(batch.node, batch.to_wall_ns) for batch in batches], dtype=np.int64
    )
    return np.where(np.abs(moved) < CLOCK_SET_NS, 0, moved)
