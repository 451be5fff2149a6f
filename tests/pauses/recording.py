"""Recordings in files: each segment as the wire has it, with the moment it was received."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("recordings")
_HEAD = struct.Struct("<QI")


class ReceivedSegment(NamedTuple):
    """One segment, and when the collector received it, in nanoseconds since the Unix epoch."""

    received_ns: int
    payload: bytes


def save(name: str, segments: Sequence[ReceivedSegment]) -> int:
    """Write the recording `name`; returns its size in bytes."""
    parts = (_HEAD.pack(received_ns, len(payload)) + payload for received_ns, payload in segments)
    packed = gzip.compress(b"".join(parts), mtime=0)
    (FOLDER / f"{name}.bin.gz").write_bytes(packed)
    return len(packed)


def load(name: str) -> Iterator[ReceivedSegment]:
    """Yield the segments that `save` wrote."""
    body, offset = gzip.decompress((FOLDER / f"{name}.bin.gz").read_bytes()), 0
    while offset < len(body):
        received_ns, size = _HEAD.unpack_from(body, offset)
        offset += _HEAD.size
        yield ReceivedSegment(received_ns, body[offset : offset + size])
        offset += size
