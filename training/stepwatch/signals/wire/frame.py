"""The parts that all formats share: prefix, bounds, checksum and key block.

    magic            8 bytes   b"SWSEG", two digits of the format's number, newline
    header_size      u32       bytes of header after the prefix
    payload_size     u32       bytes of payload after the header
    raw_size         u32       bytes of the payload once it is decompressed
    crc              u32       CRC-32 of the prefix before it, header and payload

This is frozen for all later formats, so that any version cuts a body into its segments and can
name a segment that it cannot decode. The header starts with the key block:

    attempt          u32
    spool, sequence  u64 each  below 2**63
    clock pair       u64 each  below 2**63: monotonic and wall, in nanoseconds
    job, node        u8 each   bytes of the names, which follow
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import ConfigurationError, SegmentError
from stepwatch.signals.places import NODE_STREAM, checked_name

from .segment import SegmentKey

MAX_ROWS = 1 << 18
MAX_RAW_BYTES = 32 << 20
MAX_SEGMENT_BYTES = 8 << 20
MAX_HEADER_BYTES = 4096
PREFIX = struct.Struct("<8s4I")

_MAGIC_START, _MAGIC_END = b"SWSEG", b"\n"
_KEY = struct.Struct("<I Q Q Q Q B B")
_CRC_AT = PREFIX.size - 4


def magic(format: int) -> bytes:
    """Return the first eight bytes of a segment in a format."""
    return b"%s%02d%s" % (_MAGIC_START, format, _MAGIC_END)


def read_prefix(data: bytes) -> tuple[int, int, int, int, int]:
    """Return format, header size, payload size, raw size and CRC of a segment in any format.

    Sizes are in bytes, each within its bound.

    Raises:
        SegmentError: it is too short, no prefix, or promises more than a segment may have.
    """
    if len(data) < PREFIX.size:
        raise SegmentError(f"{len(data)} bytes are less than a segment's prefix")
    start, header_size, payload_size, raw_size, crc = PREFIX.unpack_from(data)
    if (
        header_size > MAX_HEADER_BYTES
        or payload_size > MAX_SEGMENT_BYTES
        or raw_size > MAX_RAW_BYTES
    ):
        raise SegmentError("it promises more bytes than a segment may have")
    return _format_of(start), header_size, payload_size, raw_size, crc


@lru_cache(maxsize=16)
def _format_of(start: bytes) -> int:
    digits = start[5:7]
    if start[:5] != _MAGIC_START or start[7:] != _MAGIC_END or not digits.isdigit():
        raise SegmentError("it does not start like a segment")
    number = int(digits)
    if number == 0:
        raise SegmentError("there is no segment format 0")
    return number


def open_frame(data: bytes) -> tuple[int, bytes, bytes, int]:
    """Return format, header, payload and raw size of a segment with a matching checksum.

    Raises:
        SegmentError: bytes are missing or too many, or the checksum does not match.
    """
    format, header_size, payload_size, raw_size, crc = read_prefix(data)
    header_end = PREFIX.size + header_size
    if len(data) != header_end + payload_size:
        raise SegmentError(f"{len(data)} bytes instead of the {header_end + payload_size} promised")
    if _crc(data[:_CRC_AT], data[PREFIX.size :]) != crc:
        raise SegmentError("the checksum does not match; it was damaged on its way")
    return format, data[PREFIX.size : header_end], data[header_end:], raw_size


def close_frame(format: int, header: bytes, payload: bytes, raw_size: int) -> bytes:
    """Put prefix and checksum before header and payload.

    Raises:
        SegmentError: it has more bytes than a reader accepts.
    """
    if len(payload) > MAX_SEGMENT_BYTES:
        raise SegmentError(f"{len(payload)} bytes are too many for one segment; split it")
    prefix = PREFIX.pack(magic(format), len(header), len(payload), raw_size, 0)[:_CRC_AT]
    content = header + payload
    crc = _crc(prefix, content)
    return prefix + crc.to_bytes(PREFIX.size - _CRC_AT, "little") + content


def _crc(prefix: bytes, content: bytes) -> int:
    """Return the checksum over the prefix before it, header and payload."""
    return zlib.crc32(content, zlib.crc32(prefix))


def pack_key(key: SegmentKey, clock: ClockPair) -> bytes:
    """Return the key block at a header's start."""
    job, node = key.job.encode(), key.node.encode()
    numbers = _KEY.pack(
        key.attempt,
        key.spool,
        key.sequence,
        clock.monotonic_ns,
        clock.wall_ns,
        len(job),
        len(node),
    )
    return numbers + job + node


def unpack_key(header: bytes) -> tuple[SegmentKey, ClockPair, int]:
    """Return key, clock pair and size from the key block at a header's start.

    Raises:
        SegmentError: it is too short, a number is out of range, or a name is not one.
    """
    if len(header) < _KEY.size:
        raise SegmentError("its header is too short")
    attempt, spool, sequence, monotonic, wall, job_size, node_size = _KEY.unpack_from(header)
    check_range(spool, sequence, monotonic, wall)
    end = _KEY.size + job_size + node_size
    job, node = checked_names(header[_KEY.size : end], job_size, node_size)
    return SegmentKey(job, attempt, node, spool, sequence), ClockPair(monotonic, wall), end


def check_range(spool: int, sequence: int, monotonic_ns: int, wall_ns: int) -> None:
    """Refuse numbers that a signed 64-bit column cannot hold.

    Raises:
        SegmentError: one is 2**63 or more.
    """
    if (spool | sequence | monotonic_ns | wall_ns) >> 63:
        raise SegmentError("a number in its header is out of range")


@lru_cache(maxsize=4096)
def checked_names(raw: bytes, job_size: int, node_size: int) -> tuple[str, str]:
    """Return the names of job and node in a header.

    Raises:
        SegmentError: they are truncated, not ASCII, or no names.
    """
    if len(raw) != job_size + node_size:
        raise SegmentError("its header is too short")
    of_node = raw[:job_size] == NODE_STREAM.encode()
    job = NODE_STREAM if of_node else _checked(raw[:job_size], "job name")
    return job, _checked(raw[job_size:], "node name")


def _checked(raw: bytes, kind: str) -> str:
    try:
        return checked_name(raw.decode("ascii"), kind)
    except (UnicodeDecodeError, ConfigurationError) as error:
        raise SegmentError(f"bad {kind}: {error}") from error
