"""A document as bytes: a header that describes it, compressed parts, and a checksum over all.

Layout, little-endian:

    0   4  magic "SWSN"
    4   2  format of this layout
    6   2  version of the state (`STATE_VERSION`)
    8   4  CRC-32 of everything behind it
   12   4  bytes of the header
   16      header: JSON with `About`, the length of the tree, dtype and shape of each array, and
           raw and compressed bytes of each part
           parts: the tree as JSON, then the arrays one after the other, cut and compressed
"""

from __future__ import annotations

import itertools
import json
import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.state.snapshot.values import DAMAGE, Array, Document
from stepwatch.signals.errors import SegmentError, SnapshotError
from stepwatch.signals.wire.compression import Codec

FORMAT = 1
STATE_VERSION = 18
"""Rises when the classes of the state change; `tests/data/state_shape.txt` shows when they do."""
MAGIC = b"SWSN"
MAX_BYTES = 1 << 31
"""What a snapshot may unfold to: the bound on live state with room to spare."""
PART_BYTES = 8 << 20
_PREFIX = struct.Struct("<4sHHII")
_CHECKED_FROM = 12
_CODEC = Codec(1, dictionary=False)
"""At the fastest level: arrays of random times hardly shrink at any."""


class About(NamedTuple):
    """Whose state it is, after which position of its log, and the monotonic seconds then."""

    job: str
    position: int
    monotonic_s: float


def packed(document: Document, about: About) -> bytes:
    """The document as bytes.

    Raises:
        SnapshotError: it is larger than any state may be.
    """
    tree = json.dumps(document.tree, separators=(",", ":")).encode("utf-8")
    raw = b"".join([tree, *(each.tobytes() for each in document.arrays)])
    if len(raw) > MAX_BYTES:
        raise SnapshotError(f"the state takes {len(raw)} bytes, more than a snapshot may")
    parts = [raw[at : at + PART_BYTES] for at in range(0, len(raw), PART_BYTES)]
    deflated = list(map(_CODEC.deflate, parts))
    sizes = [[len(part), len(small)] for part, small in zip(parts, deflated, strict=True)]
    arrays = [[np.lib.format.dtype_to_descr(a.dtype), a.shape] for a in document.arrays]
    described = {"tree_bytes": len(tree), "arrays": arrays, "parts": sizes}
    header = json.dumps({"about": about, **described}).encode()
    body = b"".join([struct.pack("<I", len(header)), header, *deflated])
    checksum = struct.pack("<I", zlib.crc32(body))
    return b"".join([MAGIC, struct.pack("<HH", FORMAT, STATE_VERSION), checksum, body])


def unpacked(data: bytes) -> tuple[About, Document]:
    """The document in `data`, and what it is about; its arrays may be written to.

    Raises:
        SnapshotError: the bytes are damaged, or of another version of the state.
    """
    header, at = _header(data)
    try:
        raw = b"".join(_parts(data, at, header["parts"]))
        tree_bytes = int(header["tree_bytes"])
        tree = json.loads(raw[:tree_bytes])
        document = Document(tree, list(_arrays(raw, tree_bytes, header["arrays"])))
        return _about(*header["about"]), document
    except (*DAMAGE, SegmentError) as error:
        raise SnapshotError(f"its content is damaged: {error}") from error


def _about(job: Any, position: Any, monotonic_s: Any) -> About:
    return About(str(job), int(position), float(monotonic_s))


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) < _PREFIX.size:
        raise SnapshotError(f"it ends after {len(data)} bytes")
    magic, layout, version, checksum, size = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotError("it is no snapshot")
    if (layout, version) != (FORMAT, STATE_VERSION):
        raise SnapshotError(
            f"it has format {layout} of state {version}, "
            f"this version reads format {FORMAT} of state {STATE_VERSION}"
        )
    if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise SnapshotError("its checksum does not match")
    end = _PREFIX.size + size
    try:
        found = json.loads(data[_PREFIX.size : end])
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"its header is damaged: {error}") from error
    if not isinstance(found, dict):
        raise SnapshotError("its header is no object")
    return found, end


def _parts(data: bytes, at: int, sizes: list[list[int]]) -> Iterator[bytes]:
    if sum(raw for raw, _ in sizes) > MAX_BYTES or any(raw > PART_BYTES for raw, _ in sizes):
        raise SnapshotError("it would unfold to more than any state may take")
    ends = itertools.accumulate((small for _, small in sizes), initial=at)
    for (raw, _), (start, end) in zip(sizes, itertools.pairwise(ends), strict=True):
        yield _CODEC.inflate(data[start:end], raw)


def _arrays(raw: bytes, at: int, described: list[Any]) -> Iterator[Array]:
    for descr, shape in described:
        dtype = np.lib.format.descr_to_dtype(_tuples(descr))
        if dtype.hasobject or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise SnapshotError("it describes an array that no state holds")
        count = math.prod(shape)
        flat = np.frombuffer(raw, dtype, count=count, offset=at) if count else np.zeros(0, dtype)
        at += count * dtype.itemsize
        yield flat.reshape(shape).copy()


def _tuples(descr: Any) -> Any:
    """A description of a dtype as numpy wants it: JSON has made lists of its tuples."""
    if isinstance(descr, str):
        return descr
    return [tuple(_field(each) for each in field) for field in descr]


def _field(part: Any) -> Any:
    if isinstance(part, list):
        return tuple(part) if all(isinstance(each, int) for each in part) else _tuples(part)
    return part
