"""Segments on the wire: self-describing batches of records from one node.

`frame` holds the parts that every format shares for ever, `format1` is the written format. A reader
decodes by name into its own `records`: it skips unknown fields, uses *unknown* for missing fields,
and keeps tables with unknown kinds. Every length is compared with a bound before any allocation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError, UnsupportedFormatError
from stepwatch.signals.records import Kind

from . import format1, frame
from .frame import MAX_RAW_BYTES, MAX_ROWS, MAX_SEGMENT_BYTES, PREFIX
from .packed import JoinedTables
from .segment import Segment, SegmentKey, SentSegment

__all__ = [
    "MAGIC",
    "MAX_RAW_BYTES",
    "MAX_ROWS",
    "MAX_SEGMENT_BYTES",
    "MEDIA_TYPE",
    "READABLE_FORMATS",
    "WRITTEN_FORMAT",
    "JoinedTables",
    "Rows",
    "Segment",
    "SegmentKey",
    "SentSegment",
    "check",
    "decode",
    "encode",
    "encode_alike",
    "format_of",
    "known_rows",
    "peek_key",
    "read_sent",
    "split",
    "write_sent",
]

MEDIA_TYPE = "application/vnd.stepwatch.segments"
"""The HTTP media type of a request body with segments."""

READABLE_FORMATS = (1,)
WRITTEN_FORMAT = 1
MAGIC = frame.magic(WRITTEN_FORMAT)

_DECODERS = {1: format1.decode}


def encode(segment: Segment) -> bytes:
    """Pack a segment in the written format.

    Raises:
        SegmentError: it has more rows or bytes than a reader accepts, or rows with a wrong dtype.
    """
    return format1.encode(segment)


def encode_alike(
    heads: Sequence[tuple[SegmentKey, ClockPair]], tables: Mapping[Kind, format1.RowsOfAll]
) -> list[bytes]:
    """Pack segments with equal row counts of each kind: `heads` are their keys and clock pairs.

    `tables` maps a kind to rows (segments, rows of each) with `records.DTYPES[kind]`. A sender for
    thousands of nodes pays a third of the cost of `encode`, for 3 % more bytes.

    Raises:
        SegmentError: one has more rows or bytes than a reader accepts, or rows with a wrong dtype.
    """
    return format1.encode_alike(heads, tables)


def decode(data: bytes) -> Segment:
    """Check and decompress one segment; its tables are unpacked when they are read.

    Raises:
        SegmentError: it is truncated, too large or invalid, or does not match its checksum.
        UnsupportedFormatError: it is whole, and has a later format.
    """
    format, header, payload, raw_size = frame.open_frame(data)
    if format not in _DECODERS:
        raise _unsupported(format)
    return _DECODERS[format](header, payload, raw_size)


def read_sent(data: bytes) -> SentSegment:
    """Unpack one segment, with its rows as they were sent.

    Raises:
        SegmentError: it is truncated, too large or invalid, or does not match its checksum.
        UnsupportedFormatError: it is whole, and has a later format.
    """
    format, header, payload, raw_size = frame.open_frame(data)
    if format not in READABLE_FORMATS:
        raise _unsupported(format)
    return format1.read_sent(header, payload, raw_size)


def write_sent(sent: SentSegment) -> bytes:
    """Pack the result of `read_sent` in the written format.

    Raises:
        SegmentError: rows that cannot be described.
    """
    return format1.write_sent(sent)


def known_rows(number: int, rows: Rows) -> tuple[Kind | None, Rows]:
    """Return sent rows for the kind `number` in this version's layout, with their kind.

    For an unknown kind return the rows unchanged, and None.
    """
    return format1.known_rows(number, rows)


def check(data: bytes) -> None:
    """Compare a segment in any format with its own prefix and checksum, and decode nothing.

    Raises:
        SegmentError: bytes are missing or too many, or the checksum does not match.
    """
    frame.open_frame(data)


def peek_key(data: bytes) -> SegmentKey:
    """Read only the key, for example to name a segment that cannot be decoded.

    Raises:
        SegmentError: not even the key can be read.
    """
    _, header_size, *_ = frame.read_prefix(data)
    return frame.unpack_key(data[PREFIX.size : PREFIX.size + header_size])[0]


def format_of(data: bytes) -> int:
    """Return the format number of a segment, readable or not.

    Raises:
        SegmentError: it does not start like a segment.
    """
    return frame.read_prefix(data)[0]


def split(body: bytes) -> Iterator[bytes]:
    """Cut a request body into its segments, in later formats too.

    A tail that is not a whole segment is yielded as one piece.
    """
    begin = 0
    while begin < len(body):
        try:
            _, header_size, payload_size, *_ = frame.read_prefix(body[begin : begin + PREFIX.size])
        except SegmentError:
            yield body[begin:]
            return
        end = begin + PREFIX.size + header_size + payload_size
        yield body[begin:end]
        begin = end


def _unsupported(format: int) -> UnsupportedFormatError:
    readable = " and ".join(map(str, READABLE_FORMATS))
    return UnsupportedFormatError(
        format, f"segment format {format}; this stepwatch reads {readable}"
    )
