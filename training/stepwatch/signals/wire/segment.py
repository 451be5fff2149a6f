"""A segment's content after decoding."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import Kind

from .packed import PackedTables

_NO_ROWS: Mapping[int, Rows] = MappingProxyType({})


class SegmentKey(NamedTuple):
    """The key that makes a segment unique: a second one with the same key is a duplicate.

    Every agent that opens a spool draws `spool` at random, so that no sequence number from an
    earlier run is used again, even if the disk is lost.
    """

    job: str
    attempt: int
    node: str
    spool: int
    sequence: int

    @property
    def of_node(self) -> bool:
        """Return whether the segment is about the node itself, and no job."""
        return self.job == NODE_STREAM


class SentSegment(NamedTuple):
    """One node's records as they were sent.

    Each table is (the kind's number, rows with the sender's fields), in order. Fields that this
    version does not know are included.
    """

    key: SegmentKey
    clock: ClockPair
    tables: list[tuple[int, Rows]]


class Segment(NamedTuple):
    """One node's records: `tables` maps a kind to an array with `records.DTYPES[kind]`.

    `unknown` maps an unknown kind's number to rows with the sender's fields. Encoding writes them
    unchanged.
    """

    key: SegmentKey
    clock: ClockPair
    tables: Mapping[Kind, Rows]
    unknown: Mapping[int, Rows] = _NO_ROWS

    @property
    def row_count(self) -> int:
        """Rows over all tables, unknown kinds included."""
        tables = self.tables
        rows = tables.places.rows if isinstance(tables, PackedTables) else _rows(tables)
        return rows + _rows(self.unknown) if self.unknown else rows

    @property
    def nbytes(self) -> int:
        """Bytes of all tables' rows, unknown kinds included."""
        tables = self.tables
        if isinstance(tables, PackedTables):
            if not self.unknown:
                return tables.nbytes
            # Packed bytes include unknown kinds, too.
            return max(len(tables.raw), tables.places.nbytes + _bytes(self.unknown))
        return _bytes(tables) + _bytes(self.unknown)


def _rows(tables: Mapping[Kind, Rows] | Mapping[int, Rows]) -> int:
    return sum(map(len, tables.values())) if tables else 0


def _bytes(tables: Mapping[Kind, Rows] | Mapping[int, Rows]) -> int:
    return sum(rows.nbytes for rows in tables.values()) if tables else 0
