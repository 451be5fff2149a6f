"""A document as bytes: a header that describes it, compressed parts, and a checksum over all.

Layout, little-endian:

    0   4  magic "SWSN"
    4   2  layout format
    6   2  state version (`STATE_VERSION`)
    8   4  CRC-32 over everything behind it
   12   4  header size in bytes
   16      header: JSON with `About`, the tree length, each array's dtype and shape, and each
           part's raw and compressed size
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
STATE_VERSION = 37
"""Rises when the classes of the state change; `tests/data/state_shape.txt` shows when they do."""
MAGIC = b"SWSN"
MAX_BYTES = 1 << 31
"""Maximum unpacked size of a snapshot: the live-state limit with room to spare."""
PART_BYTES = 8 << 20
_PREFIX = struct.Struct("<4sHHII")
_CHECKED_FROM = 12
_CODEC = Codec(1, dictionary=False)
"""The fastest level: random times hardly shrink at any level."""


class About(NamedTuple):
    """The job, its log position at the snapshot, and the monotonic seconds then."""

    job: str
    position: int
    monotonic_s: float


def packed(document: Document, about: About) -> bytes:
    """Return the document as bytes; its arrays are released one by one, as they are packed.

    Raises:
        SnapshotError: it is larger than any state may be.
    """
    tree = json.dumps(document.tree, separators=(",", ":")).encode("utf-8")
    size = len(tree) + sum(array.nbytes for array in document.arrays)
    if size > MAX_BYTES:
        raise SnapshotError(f"the state takes {size} bytes, more than a snapshot may")
    arrays = [[np.lib.format.dtype_to_descr(a.dtype), a.shape] for a in document.arrays]
    deflated, sizes = [], []
    for part in _cut(tree, document.arrays):
        deflated.append(_CODEC.deflate(part))
        sizes.append([len(part), len(deflated[-1])])
    described = {"tree_bytes": len(tree), "arrays": arrays, "parts": sizes}
    header = json.dumps({"about": about, **described}).encode()
    body = [struct.pack("<I", len(header)), header, *deflated]
    checksum = 0
    for piece in body:
        checksum = zlib.crc32(piece, checksum)
    prefix = struct.pack("<HHI", FORMAT, STATE_VERSION, checksum)
    return b"".join([MAGIC, prefix, *body])


def _cut(tree: bytes, arrays: list[Array]) -> Iterator[bytes]:
    """Yield the tree and the arrays as one byte stream, in parts with `PART_BYTES`.

    Only one part is in memory at a time, and `arrays` is emptied on the way: a second copy of the
    whole state would double the memory for large jobs. With parts of 4 bytes, b"abcde" and an array
    of bytes 1 2 3 give b"abcd", b"e" 1 2 3.
    """
    part = bytearray()
    arrays.reverse()
    piece: Array | None = np.frombuffer(tree, np.uint8)
    while piece is not None:
        view = np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data
        while len(view):
            room = PART_BYTES - len(part)
            part += view[:room]
            view = view[room:]
            if len(part) == PART_BYTES:
                yield bytes(part)
                part.clear()
        piece = arrays.pop() if arrays else None
    if part:
        yield bytes(part)


def unpacked(data: bytes) -> tuple[About, Document]:
    """Return the document in `data` and its description; its arrays are writable.

    Raises:
        SnapshotError: the bytes are damaged, or have another state version.
    """
    header, offset = _header(data)
    try:
        stream = _Stream(_parts(data, offset, header["parts"]))
        tree = json.loads(stream.read(int(header["tree_bytes"])))
        document = Document(tree, list(_arrays(stream, header["arrays"])))
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
        raise SnapshotError("it is not a snapshot")
    if (layout, version) != (FORMAT, STATE_VERSION):
        raise SnapshotError(
            f"it has format {layout} of state {version}, "
            f"this version reads format {FORMAT} of state {STATE_VERSION}"
        )
    if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
        raise SnapshotError("its checksum does not match")
    end = _PREFIX.size + size
    try:
        header = json.loads(data[_PREFIX.size : end])
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"its header is damaged: {error}") from error
    if not isinstance(header, dict):
        raise SnapshotError("its header is not an object")
    return header, end


def _parts(data: bytes, offset: int, sizes: list[list[int]]) -> Iterator[bytes]:
    if sum(raw for raw, _ in sizes) > MAX_BYTES or any(raw > PART_BYTES for raw, _ in sizes):
        raise SnapshotError("it would unfold to more than any state may take")
    ends = itertools.accumulate((small for _, small in sizes), initial=offset)
    for (raw, _), (start, end) in zip(sizes, itertools.pairwise(ends), strict=True):
        yield _CODEC.inflate(data[start:end], raw)


class _Stream:
    """Decompressed parts, read in order; one part is in memory at a time."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytearray:
        """Return the next `size` bytes.

        Raises:
            SnapshotError: the parts hold fewer. No memory is allocated for a claimed size.
        """
        content = bytearray()
        while len(content) < size:
            if not len(self._rest):
                self._rest = memoryview(next(self._parts, b""))
                if not len(self._rest):
                    raise SnapshotError(f"it ends {size - len(content)} bytes early")
            count = min(size - len(content), len(self._rest))
            content += self._rest[:count]
            self._rest = self._rest[count:]
        return content


def _arrays(stream: _Stream, described: list[Any]) -> Iterator[Array]:
    for descr, shape in described:
        dtype = np.lib.format.descr_to_dtype(_tuples(descr))
        if dtype.hasobject or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise SnapshotError("it describes an array that no state holds")
        # The bytearray is the array's own memory, so the array is writable.
        yield np.frombuffer(stream.read(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


def _tuples(descr: Any) -> Any:
    """Convert a dtype description from JSON lists to the tuples that numpy expects."""
    if isinstance(descr, str):
        return descr
    return [tuple(_field(part) for part in field) for field in descr]


def _field(part: Any) -> Any:
    if isinstance(part, list):
        return tuple(part) if all(isinstance(number, int) for number in part) else _tuples(part)
    return part
