"""Rows of a group that were new to their ranks, with the batch each comes from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.signals.arrays import Integers, Rows
from stepwatch.signals.records import DTYPES, Kind


class Fresh(NamedTuple):
    """Rows in the order in which they are taken, batch by batch; arrays (rows,).

    `to_wall_ns` makes monotonic time wall time, `origin` is the batch within the group.
    """

    rows: Rows
    to_wall_ns: Integers
    origin: Integers

    @classmethod
    def nothing(cls, kind: Kind) -> Fresh:
        """No rows of that kind."""
        none = np.zeros(0, dtype=np.int64)
        return cls(np.zeros(0, dtype=DTYPES[kind]), none, none)

    @property
    def steps(self) -> Integers:
        """Step of each row."""
        return np.asarray(self.rows["step"].astype(np.int64))

    @property
    def ends_ns(self) -> Integers:
        """Wall time of each row in nanoseconds."""
        return np.asarray(self.rows["time_ns"].astype(np.int64) + self.to_wall_ns)

    def of(self, first: int, last: int) -> Fresh:
        """The rows of batches `first` to `last - 1`."""
        low, high = np.searchsorted(self.origin, (first, last))
        if (low, high) == (0, len(self.rows)):
            return self
        part = np.arange(low, high)
        return Fresh(chosen(self.rows, part), self.to_wall_ns[part], self.origin[part])
