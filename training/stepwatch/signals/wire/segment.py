"""What a segment holds once it is decoded."""

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
    """What makes a segment unique: a second one with the same key is a duplicate.

    `spool` is drawn at random by every agent that opens a spool, so that no sequence number of an
    earlier run is used again, even if the disk is lost.
    """

    job: str
    attempt: int
    node: str
    spool: int
    sequence: int

    @property
    def of_node(self) -> bool:
        """Whether the segment is about the node itself, and no job's."""
        return self.job == NODE_STREAM


class SentSegment(NamedTuple):
    """Records of one node as they were sent: (number of the kind, rows with the sender's fields)
    of each table, in their order. Fields that this version does not know are among them.
    """

    key: SegmentKey
    clock: ClockPair
    tables: list[tuple[int, Rows]]


class Segment(NamedTuple):
    """Records of one node: `tables` maps a kind to an array of `records.DTYPES[kind]`.

    `unknown` maps the number of a kind that this version does not know to rows with the fields of
    their sender. Encoding writes them as they came.
    """

    key: SegmentKey
    clock: ClockPair
    tables: Mapping[Kind, Rows]
    unknown: Mapping[int, Rows] = _NO_ROWS

    @property
    def row_count(self) -> int:
        """Rows over all tables, those of unknown kinds as well."""
        known = self.tables
        rows = known.places.rows if isinstance(known, PackedTables) else _rows(known)
        return rows + _rows(self.unknown) if self.unknown else rows

    @property
    def nbytes(self) -> int:
        """Bytes that the rows of all tables take, those of unknown kinds as well."""
        known = self.tables
        if isinstance(known, PackedTables):
            if not self.unknown:
                return known.nbytes
            # What is packed holds the unknown ones, too.
            return max(len(known.raw), known.places.nbytes + _bytes(self.unknown))
        return _bytes(known) + _bytes(self.unknown)


def _rows(tables: Mapping[Kind, Rows] | Mapping[int, Rows]) -> int:
    return sum(map(len, tables.values())) if tables else 0


def _bytes(tables: Mapping[Kind, Rows] | Mapping[int, Rows]) -> int:
    return sum(rows.nbytes for rows in tables.values()) if tables else 0
