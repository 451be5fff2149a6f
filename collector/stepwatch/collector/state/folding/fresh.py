"""Rows of a group that were new to their ranks, with the batch each comes from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.batches import Batches
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import TrackedAttempt
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.records import DTYPES, Kind

CLOCK_SET_NS = 1_000_000_000
"""A wall clock that moved so far against the monotonic one was set."""


class Fresh(NamedTuple):
    """Rows in the order in which they are taken, batch by batch; arrays (rows,).

    `to_wall_ns` makes monotonic time wall time, `origin` is the batch within the group, `set_ns` by
    how much the wall clock was set by then, `received_s` when the collector received it, Unix time.
    """

    rows: Rows
    to_wall_ns: Integers
    origin: Integers
    set_ns: Integers
    received_s: Vector

    @classmethod
    def nothing(cls, kind: Kind) -> Fresh:
        """No rows of that kind."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(np.zeros(0, dtype=DTYPES[kind]), empty, empty, empty, np.zeros(0))

    @classmethod
    def from_batches(
        cls, rows: Rows, origin: Integers, batches: Batches, attempt: TrackedAttempt
    ) -> Fresh:
        """Rows that come from the batches at `origin`."""
        set_ns = _set_ns(batches, attempt)[origin]
        return cls(rows, batches.to_wall_ns[origin], origin, set_ns, batches.received_s[origin])

    @property
    def steps(self) -> Integers:
        """Step of each row."""
        return np.asarray(self.rows["step"].astype(np.int64))

    @property
    def ends_ns(self) -> Integers:
        """Wall time of each row in nanoseconds."""
        return np.asarray(self.rows["time_ns"].astype(np.int64) + self.to_wall_ns)

    def in_batches(self, first: int, last: int) -> Fresh:
        """The rows of batches `first` to `last - 1`."""
        low, high = np.searchsorted(self.origin, (first, last))
        if (low, high) == (0, len(self.rows)):
            return self
        part = np.arange(low, high)
        rows, to_wall_ns, origin, set_ns, received_s = self
        columns = to_wall_ns[part], origin[part], set_ns[part], received_s[part]
        return Fresh(chosen(rows, part), *columns)


def _set_ns(batches: Batches, attempt: TrackedAttempt) -> Integers:
    """By how much the wall clock of each batch's node was set since its first one (batches,).

    Less than `CLOCK_SET_NS` is how far two readings of one clock are apart.
    """
    first = attempt.first_offsets
    moved = batches.to_wall_ns - np.array(
        [first.get(batch.node, batch.to_wall_ns) for batch in batches], dtype=np.int64
    )
    return np.where(np.abs(moved) < CLOCK_SET_NS, 0, moved)
