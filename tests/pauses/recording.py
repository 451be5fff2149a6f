"""Recordings in files: each segment as the wire has it, with the moment it was received."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).with_name("recordings")
_HEAD = struct.Struct("<QI")


class Received(NamedTuple):
    """One segment, and when the collector received it, in nanoseconds since the Unix epoch."""

    received_ns: int
    payload: bytes


def save(name: str, segments: Sequence[Received]) -> int:
    """Write the recording `name`; returns its size in bytes."""
    parts = (_HEAD.pack(at, len(payload)) + payload for at, payload in segments)
    packed = gzip.compress(b"".join(parts), mtime=0)
    (FOLDER / f"{name}.bin.gz").write_bytes(packed)
    return len(packed)


def load(name: str) -> Iterator[Received]:
    """What `save` wrote."""
    body, at = gzip.decompress((FOLDER / f"{name}.bin.gz").read_bytes()), 0
    while at < len(body):
        received_ns, size = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        yield Received(received_ns, body[at : at + size])
        at += size
