"""Input for trackers: the tables in one segment, or in several segments folded together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.readings import Subjects
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import JoinedTables, Segment
from stepwatch.signals.wire.packed import PackedTables

BATCH_BYTES = 4096
"""Bytes that a batch takes in addition to its rows."""


class Received(NamedTuple):
    """When the collector received a segment: Unix seconds, and seconds on its monotonic clock.

    Staleness uses the monotonic clock, so a wall-clock step never counts as stale.
    """

    wall_s: float
    monotonic_s: float


class Batch(NamedTuple):
    """Rows from one node that arrived together; `to_wall_ns` converts its clock to wall time."""

    node: str
    to_wall_ns: int
    received: Received
    tables: Mapping[Kind, Rows]

    @property
    def nbytes(self) -> int:
        """Approximate memory size in bytes, rows only."""
        tables = self.tables
        if isinstance(tables, PackedTables):
            return tables.nbytes
        return sum(rows.nbytes for rows in tables.values())

    def rows(self, kind: Kind) -> Rows | None:
        """Return the rows with this kind; None without any."""
        table = self.tables.get(kind)
        return table if table is not None and len(table) else None


def batch_of(segment: Segment, received: Received) -> Batch:
    """Return the batch that trackers see for a segment."""
    to_wall_ns = segment.clock.wall_ns - segment.clock.monotonic_ns
    return Batch(segment.key.node, to_wall_ns, received, segment.tables)


class Table:
    """Rows with one kind from several batches; batch `i` has rows `starts[i]:starts[i + 1]`."""

    def __init__(self, rows: Rows, starts: Integers) -> None:
        self.rows = rows
        self.starts = starts

    @cached_property
    def counts(self) -> Integers:
        """Number of rows per batch (batches,)."""
        return np.diff(self.starts)

    @cached_property
    def origin(self) -> Integers:
        """Batch index for each row (rows,)."""
        return np.repeat(np.arange(len(self.starts) - 1), self.counts)

    def part(self, first: int, last: int) -> Table:
        """Return a view on the rows from batches `first` to `last - 1`."""
        low, high = self.starts[first], self.starts[last]
        return Table(self.rows[low:high], self.starts[first : last + 1] - low)


@lru_cache(maxsize=256)
def _empty(kind: Kind, batches: int) -> Table:
    """Return an empty table; cached because most kinds are in no batch and ten trackers ask."""
    starts = np.zeros(batches + 1, dtype=np.int64)
    rows = np.zeros(0, dtype=DTYPES[kind])
    for array in (starts, rows):
        array.setflags(write=False)
    return Table(rows, starts)


class Batches:
    """Batches for one attempt in storage order, with their tables joined.

    `around` is a longer run of batches that contains this one from `start` on: tables are joined
    once.
    """

    def __init__(
        self, batches: Sequence[Batch], around: Batches | None = None, start: int = 0
    ) -> None:
        self._batches = batches
        self._around = around
        self._start = start
        self._joined = JoinedTables([batch.tables for batch in batches]) if around is None else None
        self._tables: dict[Kind, Table] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._batches)

    def __getitem__(self, index: int) -> Batch:
        return self._batches[index]

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """Kinds of records in any batch."""
        return self._kinds(0, len(self))

    def _kinds(self, first: int, last: int) -> frozenset[Kind]:
        if self._joined is not None:
            return self._joined.kinds(first, last)
        assert self._around is not None
        return self._around._kinds(self._start + first, self._start + last)

    @cached_property
    def to_wall_ns(self) -> Integers:
        """Offset from each batch's node clock to wall time (batches,)."""
        return np.array([batch.to_wall_ns for batch in self._batches], dtype=np.int64)

    @cached_property
    def received_monotonic_s(self) -> Vector:
        """Receive time for each batch (batches,), on the monotonic clock."""
        return np.array([batch.received.monotonic_s for batch in self._batches])

    @cached_property
    def received_s(self) -> Vector:
        """Receive time for each batch (batches,), Unix seconds, which survive a restart."""
        return np.array([batch.received.wall_s for batch in self._batches])

    def numbered(self, nodes: Subjects, origin: Integers) -> Integers:
        """Return each row's node number among `nodes` (rows,), from its batch index in `origin`.

        Batches from nodes a, b, a and origin 0, 0, 2 with no node known yet -> 0, 0, 0; b has no
        row and gets no number.
        """
        numbers = np.flatnonzero(np.bincount(origin, minlength=len(self)))
        node_numbers = np.full(len(self), -1, dtype=np.int64)
        node_numbers[numbers] = nodes.numbered(
            [self._batches[index].node for index in numbers.tolist()]
        )
        return node_numbers[origin]

    def part(self, first: int, last: int) -> Batches:
        """Return batches `first` to `last - 1`."""
        if last - first == len(self):
            return self
        return Batches(self._batches[first:last], self, first)

    def rows(self, kind: Kind) -> Rows | None:
        """Return the rows with this kind, batch by batch; None without any."""
        table = self.table(kind)
        return table.rows if len(table.rows) else None

    def table(self, kind: Kind) -> Table:
        """Return the rows with this kind, and each batch's first row."""
        table = self._tables.get(kind)
        if table is None:
            if kind not in self.kinds:
                table = _empty(kind, len(self))
            elif self._joined is not None:
                rows, counts = self._joined.rows(kind)
                table = Table(rows, np.append(0, np.cumsum(counts)))
            else:
                assert self._around is not None
                table = self._around.table(kind).part(self._start, self._start + len(self))
            self._tables[kind] = table
        return table
