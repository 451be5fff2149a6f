"""Prometheus' remote write, as far as a benchmark sends it: the message and its framing.

The message is `WriteRequest` of prompb: timeseries = 1 of labels = 1 (name = 1, value = 2) and
samples = 2 (value = 1 as a double, timestamp = 2 as milliseconds). Snappy's block format allows
literals alone, so nothing is compressed: the receiver copies instead of decompressing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
_LITERAL = 1 << 16
_LITERAL_OF_TWO_BYTES = 61 << 2
_DOUBLE = struct.Struct("<d")


def varint(number: int) -> bytes:
    """Encode seven bits per byte, the lowest first; 300 -> ac 02."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def field(number: int, content: bytes) -> bytes:
    """Encode a field that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def labels(values: Mapping[str, str]) -> bytes:
    """Encode the labels of a series, sorted by name as receivers expect them."""
    return b"".join(
        field(1, field(1, name.encode()) + field(2, value.encode()))
        for name, value in sorted(values.items())
    )


def timeseries(label_bytes: bytes, samples: Iterable[tuple[float, int]]) -> bytes:
    """Encode a series with its (value, milliseconds) as a field of the request."""
    rows = b"".join(
        field(2, b"\x09" + _DOUBLE.pack(value) + b"\x10" + varint(milliseconds))
        for value, milliseconds in samples
    )
    return field(1, label_bytes + rows)


def frame(message: bytes) -> bytes:
    """Frame a message in snappy's block format, in literals."""
    pieces = [varint(len(message))]
    for start in range(0, len(message), _LITERAL):
        piece = message[start : start + _LITERAL]
        pieces += [bytes([_LITERAL_OF_TWO_BYTES]), struct.pack("<H", len(piece) - 1), piece]
    return b"".join(pieces)
