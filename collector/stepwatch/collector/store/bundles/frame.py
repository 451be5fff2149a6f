"""Binary format for bundles: a header, compressed columns, and a checksum over both.

Layout, little-endian:

    0   4  magic "SWBN"
    4   2  format version
    6   2  zero
    8   4  CRC-32 over all bytes after this field
   12   4  compressed header size in bytes
   16   4  header size in bytes
   20      header: JSON with the job, the senders (attempt, node, spool), per table its kind
           number, layout and columns, and the columns of the segment list
           parts: the segment list, then the tables, each part one zstd frame

The segment list has one row per segment: position, time received, key, clocks, and its row count
per table. Rows keep the segment order and their senders' fields.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.store.bundles import columns
from stepwatch.collector.store.bundles.columns import Described
from stepwatch.signals import layouts, wire
from stepwatch.signals.arrays import Integers, Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.layouts import LayoutError
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment, SegmentKey, SentSegment
from stepwatch.signals.wire.compression import Codec

FORMAT = 1
MAGIC = b"SWBN"
MAX_SEGMENTS = 1 << 14
MAX_ROWS = 1 << 21
MAX_HEADER_BYTES = 64 << 20
MAX_RAW_BYTES = 1 << 30
"""Limits that a reader accepts; `upkeep/compaction` writes far smaller bundles."""
_PREFIX = struct.Struct("<4sHHIII")
_CHECKED_FROM = 12
_codec = Codec(6, dictionary=False)
_HEAD_FIELDS = ("position", "received_ns", "monotonic_ns", "wall_ns", "sequence", "sender")
_DAMAGE = (ValueError, TypeError, KeyError, IndexError, OverflowError, StopIteration, LayoutError)
"""Exceptions that an invalid header may cause."""


class Placed(NamedTuple):
    """A sent segment, its position in the job's log, and its wall time received in nanoseconds."""

    position: int
    received_ns: int
    sent: SentSegment


class _Table(NamedTuple):
    """Rows with one kind and layout over all segments; `ends` holds the end index per segment."""

    number: int
    rows: Rows
    ends: Integers


class Bundle:
    """One job's segments by position."""

    def __init__(
        self, job: str, senders: Sequence[tuple[int, str, int]], heads: Rows, tables: list[_Table]
    ) -> None:
        self.positions: list[int] = heads["position"].tolist()
        self.received_ns: list[int] = heads["received_ns"].tolist()
        clocks: Any = heads[["monotonic_ns", "wall_ns"]]
        sequences: Any = heads[["sender", "sequence"]]
        self._clocks: list[tuple[int, int]] = clocks.tolist()
        self.keys = [_key(job, senders[sender], number) for sender, number in sequences.tolist()]
        self._tables = tables
        self._decoded: list[tuple[int, Kind | None, Rows, list[int]]] | None = None

    def segment(self, index: int) -> Segment:
        """Return the segment at an index of `positions`, as decoding the sent bytes would."""
        if self._decoded is None:
            table_rows = (
                (table, wire.known_rows(table.number, table.rows)) for table in self._tables
            )
            self._decoded = [
                (table.number, kind, rows, table.ends.tolist())
                for table, (kind, rows) in table_rows
            ]
        tables: dict[Kind, Rows] = {}
        unknown: dict[int, Rows] = {}
        for number, kind, rows, ends in self._decoded:
            first, end = ends[index - 1] if index else 0, ends[index]
            if end == first:
                continue
            if kind is None:
                unknown[number] = rows[first:end]
            else:
                tables[kind] = rows[first:end]
        return Segment(self.keys[index], ClockPair(*self._clocks[index]), tables, unknown)

    def placed(self, index: int) -> Placed:
        """Return the sent segment at an index of `positions`."""
        tables = []
        for number, rows, ends in self._tables:
            first, end = int(ends[index - 1]) if index else 0, int(ends[index])
            if end > first:
                tables.append((number, rows[first:end]))
        sent = SentSegment(self.keys[index], ClockPair(*self._clocks[index]), tables)
        return Placed(self.positions[index], self.received_ns[index], sent)


def _key(job: str, sender: tuple[int, str, int], sequence: int) -> SegmentKey:
    attempt, node, spool = sender
    return SegmentKey(job, attempt, node, spool, sequence)


def packed(segments: Sequence[Placed]) -> bytes:
    """Return one job's segments, ordered by position, as bundle bytes.

    Raises:
        SegmentError: the rows cannot be described.
    """
    job = segments[0].sent.key.job
    senders: dict[tuple[int, str, int], int] = {}
    heads = np.zeros(len(segments), [(name, "<i8") for name in _HEAD_FIELDS])
    tables: dict[tuple[int, np.dtype[np.void]], list[tuple[int, Rows]]] = {}
    for row, (position, received_ns, (key, clock, sent_tables)) in enumerate(segments):
        sender = senders.setdefault((key.attempt, key.node, key.spool), len(senders))
        heads[row] = (position, received_ns, *clock, key.sequence, sender)
        for number, rows in sent_tables:
            tables.setdefault((number, rows.dtype), []).append((row, rows))
    ordered = [(n, _layout_of(n, dtype), members) for (n, dtype), members in tables.items()]
    ordered.sort(key=itemgetter(0, 1))
    counts = {f"rows{n}": _counts(members, len(heads)) for n, (*_, members) in enumerate(ordered)}
    listed = _with_columns(heads, counts)
    described, parts = columns.pack(listed, np.zeros(len(heads), np.int64))
    document: dict[str, Any] = {"job": job, "senders": list(senders), "segments": len(heads)}
    document |= {"list": described, "tables": []}
    for number, layout, members in ordered:
        # Joined as bytes: numpy would promote each array's fields to a common type.
        joined = b"".join(rows.tobytes() for _, rows in members)
        rows = np.frombuffer(joined, members[0][1].dtype)
        of_row = np.repeat(
            [row for row, _ in members], [len(member_rows) for _, member_rows in members]
        )
        described, more = columns.pack(rows, heads["sender"][of_row])
        document["tables"].append([number, layout, described])
        parts += more
    return _framed(document, parts)


def unpacked(data: bytes) -> Bundle:
    """Return the bundle in `data`.

    Raises:
        SegmentError: the bytes are damaged or have a later format.
    """
    header, offset = _header(data)
    try:
        tables = [(int(entry[0]), str(entry[1]), entry[2]) for entry in header["tables"]]
        layout = [(name, "<i8") for name in _HEAD_FIELDS]
        layout += [(f"rows{number}", "<i8") for number in range(len(tables))]
        all_columns = [*header["list"], *(column for _, _, table in tables for column in table)]
        parts = _parts(data, offset, all_columns)
        count = int(header["segments"])
        if not 0 < count <= MAX_SEGMENTS:
            raise SegmentError(f"it has {count} segments")
        # Lanes in the list differ only by sender, and the sender is one of the list's columns.
        heads = columns.unpack(np.dtype(layout), np.zeros(count, np.int64), header["list"], parts)
        senders = [(int(a), str(node), int(spool)) for a, node, spool in header["senders"]]
        row_tables = list(_tables(heads, tables, parts))
        return Bundle(str(header["job"]), senders, heads, row_tables)
    except _DAMAGE as error:
        raise SegmentError(f"its content is damaged: {error}") from error


def check(data: bytes) -> None:
    """Verify a bundle's checksum without decoding it.

    Raises:
        SegmentError: the bundle is damaged or has a later format.
    """
    _header(data)


def _layout_of(number: int, dtype: np.dtype[np.void]) -> str:
    try:
        return layouts.describe(dtype)
    except LayoutError as error:
        raise SegmentError(f"rows of kind {number} cannot be described: {error}") from error


def _counts(members: list[tuple[int, Rows]], segments: int) -> Integers:
    counts = np.zeros(segments, np.int64)
    counts[[row for row, _ in members]] = [len(rows) for _, rows in members]
    return counts


def _with_columns(rows: Rows, more: dict[str, Integers]) -> Rows:
    names = rows.dtype.names or ()
    joined = np.zeros(len(rows), [(name, "<i8") for name in (*names, *more)])
    for name in names:
        joined[name] = rows[name]
    for name, values in more.items():
        joined[name] = values
    return joined


def _framed(document: dict[str, Any], parts: list[bytes]) -> bytes:
    header = json.dumps(document, separators=(",", ":")).encode()
    small = _codec.deflate(header)
    body = b"".join([struct.pack("<II", len(small), len(header)), small, *parts])
    return b"".join([MAGIC, struct.pack("<HHI", FORMAT, 0, zlib.crc32(body)), body])


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX.size or not data.startswith(MAGIC):
        raise SegmentError("it is not a bundle")
    _, format, _, checksum, size, raw_size = _PREFIX.unpack_from(data)
    if format != FORMAT:
        raise SegmentError(f"bundle format {format}; this stepwatch reads {FORMAT}")
    if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise SegmentError("the checksum of its bundle does not match")
    end = _PREFIX.size + size
    if raw_size > MAX_HEADER_BYTES or end > len(data):
        raise SegmentError("its bundle promises more bytes than it has")
    try:
        header = json.loads(_codec.inflate(data[_PREFIX.size : end], raw_size))
    except (ValueError, RecursionError) as error:
        raise SegmentError(f"the header of its bundle is damaged: {error}") from error
    if not isinstance(header, dict):
        raise SegmentError("the header of its bundle is not an object")
    return header, end


def _parts(data: bytes, offset: int, described: list[Described]) -> Iterator[bytes]:
    for _, _, sizes in described:
        for size in sizes:
            yield data[offset : offset + size]
            offset += size


def _tables(
    heads: Rows, tables: list[tuple[int, str, list[Described]]], parts: Iterator[bytes]
) -> Iterator[_Table]:
    total = 0
    for place, (number, layout, described) in enumerate(tables):
        counts = heads[f"rows{place}"]
        dtype = layouts.parse(layout.encode())
        total += int(counts.sum()) * dtype.itemsize
        if counts.min() < 0 or counts.sum() > MAX_ROWS or total > MAX_RAW_BYTES:
            raise SegmentError(f"its table of kind {number} is larger than any bundle")
        sender = np.repeat(heads["sender"], counts)
        rows = columns.unpack(dtype, sender, described, parts)
        yield _Table(number, rows, np.cumsum(counts))
