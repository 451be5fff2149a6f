"""Segment wire format: a columnar batch of records from one node.

    magic            8 bytes   b"SWSEG01\\n"
    header_size      u32       bytes of header that follow the prefix
    payload_size     u32       bytes of zstd frame after the header
    raw_size         u32       bytes of the frame's content
    crc              u32       CRC-32 of header and payload
    header           job, node, attempt, spool, sequence, clock pair, and (kind, rows) per table
    payload          one zstd frame: for every table, every column, its bytes shuffled

Integer columns are stored as differences between neighbours, so that steps, sequence numbers and
clocks shrink to almost nothing. Nothing is allocated from a length that was not checked against a
bound first; the schema, not the sender, decides the dtypes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import zstandard

from .clock import ClockPair
from .errors import ConfigurationError, SegmentError
from .places import checked_name
from .records import DTYPES, SCHEMA_VERSION, Kind

Rows = np.ndarray[tuple[int], np.dtype[np.void]]

MAGIC = b"SWSEG01\n"
MAX_ROWS = 1 << 18
MAX_RAW_BYTES = 32 << 20
MAX_SEGMENT_BYTES = 8 << 20
_PREFIX = struct.Struct("<8s4I")
_FIXED = struct.Struct("<H I Q Q Q Q B B B")
_TABLE = struct.Struct("<H I")
_COMPRESSION_LEVEL = 3


class SegmentKey(NamedTuple):
    """What makes a segment unique: a second one with the same key is a duplicate.

    `spool` is drawn at random by every agent that opens a spool, so that no sequence number of an
    earlier life is used again, whatever became of the disk.
    """

    job: str
    attempt: int
    node: str
    spool: int
    sequence: int


class Segment(NamedTuple):
    """Records of one node: `tables` maps a kind to an array of `records.DTYPES[kind]`."""

    key: SegmentKey
    clock: ClockPair
    tables: Mapping[Kind, Rows]

    @property
    def row_count(self) -> int:
        """Rows over all tables."""
        return sum(len(rows) for rows in self.tables.values())


def encode(segment: Segment) -> bytes:
    """Pack a segment.

    Raises:
        SegmentError: it has more rows or bytes than a reader accepts.
    """
    tables = [(kind, rows) for kind, rows in sorted(segment.tables.items()) if len(rows)]
    if segment.row_count > MAX_ROWS:
        raise SegmentError(f"{segment.row_count} rows are too many for one segment; split it")
    raw = b"".join(_encode_table(kind, rows) for kind, rows in tables)
    if len(raw) > MAX_RAW_BYTES:
        raise SegmentError(f"{len(raw)} bytes are too many for one segment; split it")
    header = _encode_header(segment, tables)
    payload = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(raw)
    if len(payload) > MAX_SEGMENT_BYTES:
        raise SegmentError(f"{len(payload)} bytes are too many for one segment; split it")
    crc = zlib.crc32(payload, zlib.crc32(header))
    return _PREFIX.pack(MAGIC, len(header), len(payload), len(raw), crc) + header + payload


def decode(data: bytes) -> Segment:
    """Unpack one segment.

    Raises:
        SegmentError: it is truncated, too large, of another version, or does not match its CRC.
    """
    header_size, payload_size, raw_size = _checked_prefix(data)
    if len(data) != _PREFIX.size + header_size + payload_size:
        raise SegmentError(
            f"{len(data)} bytes instead of the {header_size + payload_size} promised"
        )
    header = data[_PREFIX.size : _PREFIX.size + header_size]
    payload = data[_PREFIX.size + header_size :]
    crc = _PREFIX.unpack_from(data)[4]
    if zlib.crc32(payload, zlib.crc32(header)) != crc:
        raise SegmentError("the checksum does not match; it was damaged on its way")
    key, clock, tables = _decode_header(header)
    expected = sum(rows * DTYPES[kind].itemsize for kind, rows in tables)
    if expected != raw_size:
        raise SegmentError(f"tables of {expected} bytes in a payload of {raw_size}")
    return Segment(key, clock, _decode_tables(tables, _inflate(payload, raw_size)))


def peek_key(data: bytes) -> SegmentKey:
    """Read only the key, for example to name a segment that cannot be decoded.

    Raises:
        SegmentError: not even the header can be read.
    """
    header_size, _, _ = _checked_prefix(data)
    return _decode_header(data[_PREFIX.size : _PREFIX.size + header_size])[0]


def split(body: bytes) -> Iterator[bytes]:
    """Cut a request body into its segments; a tail that is no whole segment comes as one piece."""
    at = 0
    while at < len(body):
        try:
            header_size, payload_size, _ = _checked_prefix(body[at : at + _PREFIX.size])
        except SegmentError:
            yield body[at:]
            return
        size = _PREFIX.size + header_size + payload_size
        yield body[at : at + size]
        at += size


def _checked_prefix(data: bytes) -> tuple[int, int, int]:
    if len(data) < _PREFIX.size:
        raise SegmentError(f"{len(data)} bytes are less than a segment's prefix")
    magic, header_size, payload_size, raw_size, _ = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise SegmentError("it does not start like a segment of this version")
    if header_size > 4096 or payload_size > MAX_SEGMENT_BYTES or raw_size > MAX_RAW_BYTES:
        raise SegmentError("it promises more bytes than a segment may have")
    return header_size, payload_size, raw_size


def _encode_header(segment: Segment, tables: list[tuple[Kind, Rows]]) -> bytes:
    key = segment.key
    job, node = key.job.encode(), key.node.encode()
    fixed = _FIXED.pack(
        SCHEMA_VERSION,
        key.attempt,
        key.spool,
        key.sequence,
        segment.clock.monotonic_ns,
        segment.clock.wall_ns,
        len(job),
        len(node),
        len(tables),
    )
    return fixed + job + node + b"".join(_TABLE.pack(kind, len(rows)) for kind, rows in tables)


def _decode_header(header: bytes) -> tuple[SegmentKey, ClockPair, list[tuple[Kind, int]]]:
    if len(header) < _FIXED.size:
        raise SegmentError("its header is too short")
    version, attempt, spool, sequence, monotonic, wall, job_size, node_size, table_count = (
        _FIXED.unpack_from(header)
    )
    if version != SCHEMA_VERSION:
        raise SegmentError(f"schema version {version}; this stepwatch reads {SCHEMA_VERSION}")
    if max(spool, sequence, monotonic, wall) >= 1 << 63:
        raise SegmentError("a number in its header is out of range")
    names_end = _FIXED.size + job_size + node_size
    if len(header) != names_end + table_count * _TABLE.size:
        raise SegmentError("its header has the wrong size")
    job = _name(header[_FIXED.size : _FIXED.size + job_size], "job name")
    node = _name(header[_FIXED.size + job_size : names_end], "node name")
    tables = [
        _checked_table(*_TABLE.unpack_from(header, names_end + index * _TABLE.size))
        for index in range(table_count)
    ]
    kinds = [kind for kind, _ in tables]
    if len(set(kinds)) != len(kinds) or sum(rows for _, rows in tables) > MAX_ROWS:
        raise SegmentError("it repeats a table or has too many rows")
    return SegmentKey(job, attempt, node, spool, sequence), ClockPair(monotonic, wall), tables


def _checked_table(kind: int, rows: int) -> tuple[Kind, int]:
    try:
        return Kind(kind), rows
    except ValueError as error:
        raise SegmentError(f"no record kind {kind} in schema {SCHEMA_VERSION}") from error


def _name(raw: bytes, what: str) -> str:
    try:
        return checked_name(raw.decode("ascii"), what)
    except (UnicodeDecodeError, ConfigurationError) as error:
        raise SegmentError(f"bad {what}: {error}") from error


def _inflate(payload: bytes, raw_size: int) -> bytes:
    # max_output_size is ignored where the frame states a size of its own: check that one first.
    try:
        stated = zstandard.get_frame_parameters(payload).content_size
        if stated != raw_size:
            raise SegmentError(f"a frame of {stated} bytes in a payload of {raw_size}")
        raw = zstandard.ZstdDecompressor(max_window_size=1 << 26).decompress(
            payload, max_output_size=max(raw_size, 1)
        )
    except zstandard.ZstdError as error:
        raise SegmentError(f"its payload cannot be decompressed: {error}") from error
    if len(raw) != raw_size:
        raise SegmentError(f"{len(raw)} bytes came out of a payload of {raw_size}")
    return raw


def _encode_table(kind: Kind, rows: Rows) -> bytes:
    if rows.dtype != DTYPES[kind]:
        raise SegmentError(f"rows of {kind.name} have the wrong dtype")
    return b"".join(_encode_column(rows[name]) for name in DTYPES[kind].names or ())


def _encode_column(column: np.ndarray[tuple[int], np.dtype[np.generic]]) -> bytes:
    values = np.ascontiguousarray(column)
    if values.dtype.kind in "iu":
        unsigned = values.view(f"<u{values.itemsize}")
        values = np.diff(unsigned, prepend=unsigned.dtype.type(0))  # wraps; so does the sum back
    return values.view(np.uint8).reshape(len(values), -1).T.tobytes()


def _decode_tables(tables: list[tuple[Kind, int]], raw: bytes) -> dict[Kind, Rows]:
    decoded: dict[Kind, Rows] = {}
    at = 0
    for kind, count in tables:
        rows = np.zeros(count, dtype=DTYPES[kind])
        for name in rows.dtype.names or ():
            column = rows.dtype[name]
            size = count * column.itemsize
            rows[name] = _decode_column(raw[at : at + size], count, column)
            at += size
        decoded[kind] = rows
    return decoded


def _decode_column(
    raw: bytes, count: int, dtype: np.dtype[np.generic]
) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    shuffled = np.frombuffer(raw, dtype=np.uint8).reshape(dtype.itemsize, count)
    plain = np.ascontiguousarray(shuffled.T).reshape(-1)
    if dtype.kind in "iu":
        unsigned = plain.view(f"<u{dtype.itemsize}")
        return np.cumsum(unsigned, dtype=unsigned.dtype).view(dtype)
    return plain.view(dtype)
