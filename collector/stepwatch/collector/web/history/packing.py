"""A JSON header and arrays as bytes, compressed: how one collector hands history to another."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwatch.collector.quantities import json_value
from stepwatch.signals.wire.compression import Codec

MOST_BYTES = 64 << 20
"""Maximum size unpacked."""
_LENGTH = struct.Struct("<I")
_CODEC = Codec(1, dictionary=False)


def packed(header: dict[str, Any], arrays: Sequence[np.ndarray[Any, np.dtype[Any]]]) -> bytes:
    """Return a header and arrays as bytes.

    Raises:
        ValueError: they are too large.
    """
    layout = [[array.dtype.str, [*array.shape]] for array in arrays]
    text = json.dumps(json_value({"header": header, "arrays": layout}), allow_nan=False).encode()
    raw = b"".join([_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays)])
    if len(raw) > MOST_BYTES:
        raise ValueError(f"{len(raw)} bytes of history are more than {MOST_BYTES}")
    return _LENGTH.pack(len(raw)) + _CODEC.deflate(raw)


def unpacked(payload: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Return the header and the read-only arrays in a `packed` payload.

    Raises:
        SegmentError, ValueError: the payload is damaged.
    """
    (size,) = _LENGTH.unpack_from(payload)
    if size > MOST_BYTES:
        raise ValueError("a damaged answer")
    raw = _CODEC.inflate(payload[_LENGTH.size :], size)
    (text_size,) = _LENGTH.unpack_from(raw)
    place = _LENGTH.size + text_size
    document = json.loads(raw[_LENGTH.size : place])
    arrays = []
    for kind, shape in document["arrays"]:
        dtype = np.dtype(kind)
        count = math.prod(shape)
        arrays.append(np.frombuffer(raw, dtype, count, place).reshape(shape))
        place += count * dtype.itemsize
    return document["header"], arrays
