"""Format 2: tables of a fixed layout, stored column by column. Read for ever, written on demand.

    header           schema version, key, clock pair, and (kind, rows) per table
    payload          one zstd frame: for every table, every column, its bytes transposed

Integer columns are stored as differences between neighbours. The layouts are those of `released`;
they changed twice while the schema version stayed 2, so a reader uses the layout whose sizes
fit. Fields and kinds that came later are left out when a segment is written in this format.
"""

from __future__ import annotations

import struct
from functools import cache
from itertools import chain

import numpy as np

from stepwatch.signals import layouts, released
from stepwatch.signals.arrays import Column, Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError, UnsupportedFormatError
from stepwatch.signals.layouts import Converter
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind

from . import frame
from .compression import Codec
from .segment import Segment, SegmentKey

_SCHEMA_VERSION = 2
_FIXED = struct.Struct("<H I Q Q Q Q B B B")
_TABLE = struct.Struct("<H I")
_codec = Codec(3, dictionary=False)

_Tables = list[tuple[int, int]]
"""Kind and rows of each table."""


def encode(segment: Segment) -> bytes:
    """Pack a segment for a reader of format 2.

    Raises:
        SegmentError: it has more rows or bytes than a reader accepts.
    """
    if segment.row_count > frame.MAX_ROWS:
        raise SegmentError(f"{segment.row_count} rows are too many for one segment; split it")
    newest = _generations()[0]
    tables = [
        (int(kind), _fitted(kind, rows, newest[kind]))
        for kind, rows in sorted(segment.tables.items())
        if len(rows) and kind in newest
    ]
    raw = b"".join(_encode_table(rows) for _, rows in tables)
    if len(raw) > frame.MAX_RAW_BYTES:
        raise SegmentError(f"{len(raw)} bytes are too many for one segment; split it")
    header = _encode_header(segment, [(kind, len(rows)) for kind, rows in tables])
    return frame.close_frame(2, header, _codec.deflate(raw), len(raw))


def decode(header: bytes, payload: bytes, raw_size: int) -> Segment:
    """Unpack the parts of a segment.

    Raises:
        SegmentError: what it holds is not what it promises.
    """
    key, clock, tables = _decode_header(header)
    layout = _fitting_layout(tables, raw_size)
    raw = _codec.inflate(payload, raw_size)
    decoded: dict[Kind, Rows] = {}
    at = 0
    for number, count in tables:
        kind, dtype = Kind(number), layout[number]
        size = count * dtype.itemsize
        rows = _decode_table(raw[at : at + size], count, dtype)
        decoded[kind] = _fitted(kind, rows, DTYPES[kind])
        at += size
    return Segment(key, clock, decoded)


def peek_key(header: bytes) -> SegmentKey:
    """Read only the key.

    Raises:
        SegmentError: not even the header can be read.
    """
    return _decode_header(header)[0]


@cache
def _generations() -> tuple[dict[int, np.dtype[np.void]], ...]:
    """Layouts that were written under this number, the newest first."""
    texts = ({}, *released.EARLIER_FORMAT_2)
    return tuple(
        {kind: layouts.parse(text.encode()) for kind, text in (released.FORMAT_2 | earlier).items()}
        for earlier in texts
    )


def _fitting_layout(tables: _Tables, raw_size: int) -> dict[int, np.dtype[np.void]]:
    for layout in _generations():
        if sum(rows * layout[kind].itemsize for kind, rows in tables) == raw_size:
            return layout
    raise SegmentError(f"its tables do not fit into a payload of {raw_size} bytes")


def _fitted(kind: Kind, rows: Rows, target: np.dtype[np.void]) -> Rows:
    if rows.dtype == target:
        return rows
    unknown = UNKNOWN[kind]
    # What format 2 knows and this version dropped has no unknown value here: zeros, as they begin.
    known = {name: unknown.get(name, 0) for name in target.names or ()}
    return Converter(rows.dtype, target, known)(rows)


def _encode_header(segment: Segment, tables: _Tables) -> bytes:
    key = segment.key
    job, node = key.job.encode(), key.node.encode()
    fixed = _FIXED.pack(
        _SCHEMA_VERSION,
        key.attempt,
        key.spool,
        key.sequence,
        segment.clock.monotonic_ns,
        segment.clock.wall_ns,
        len(job),
        len(node),
        len(tables),
    )
    return b"".join(chain((fixed, job, node), (_TABLE.pack(*table) for table in tables)))


def _decode_header(header: bytes) -> tuple[SegmentKey, ClockPair, _Tables]:
    if len(header) < _FIXED.size:
        raise SegmentError("its header is too short")
    version, attempt, spool, sequence, monotonic, wall, job_size, node_size, table_count = (
        _FIXED.unpack_from(header)
    )
    if version != _SCHEMA_VERSION:
        raise UnsupportedFormatError(
            version, f"schema version {version} of format 2; this stepwatch reads {_SCHEMA_VERSION}"
        )
    frame.check_range(spool, sequence, monotonic, wall)
    names_end = _FIXED.size + job_size + node_size
    if len(header) != names_end + table_count * _TABLE.size:
        raise SegmentError("its header has the wrong size")
    job, node = frame.checked_names(header[_FIXED.size : names_end], job_size, node_size)
    tables = list(_TABLE.iter_unpack(header[names_end:]))
    kinds = [kind for kind, _ in tables]
    for kind in kinds:
        if kind not in released.FORMAT_2:
            raise SegmentError(f"format 2 has no record kind {kind}")
    if len(set(kinds)) != len(kinds) or sum(rows for _, rows in tables) > frame.MAX_ROWS:
        raise SegmentError("it repeats a table or has too many rows")
    return SegmentKey(job, attempt, node, spool, sequence), ClockPair(monotonic, wall), tables


def _encode_table(rows: Rows) -> bytes:
    return b"".join(_encode_column(rows[name]) for name in rows.dtype.names or ())


def _encode_column(column: Column) -> bytes:
    values = np.ascontiguousarray(column)
    if values.dtype.kind in "iu":
        unsigned = values.view(f"<u{values.itemsize}")
        values = np.diff(unsigned, prepend=unsigned.dtype.type(0))  # wraps; so does the sum back
    return values.view(np.uint8).reshape(len(values), -1).T.tobytes()


def _decode_table(raw: bytes, count: int, dtype: np.dtype[np.void]) -> Rows:
    rows = np.zeros(count, dtype=dtype)
    at = 0
    for name in dtype.names or ():
        column = dtype[name]
        size = count * column.itemsize
        rows[name] = _decode_column(raw[at : at + size], count, column)
        at += size
    return rows


def _decode_column(raw: bytes, count: int, dtype: np.dtype[np.generic]) -> Column:
    shuffled = np.frombuffer(raw, dtype=np.uint8).reshape(dtype.itemsize, count)
    plain = np.ascontiguousarray(shuffled.T).reshape(-1)
    if dtype.kind in "iu":
        unsigned = plain.view(f"<u{dtype.itemsize}")
        return np.cumsum(unsigned, dtype=unsigned.dtype).view(dtype)
    return plain.view(dtype)
