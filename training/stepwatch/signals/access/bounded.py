"""Reads a peer's data, or stored compressed data, within bounds for size and time."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Iterable


class TooLongError(ValueError):
    """The data exceeds the bound; `data` holds the part within it."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__(f"longer than {most} bytes")
        self.data = data


class TooSlowError(TimeoutError):
    """The end did not arrive in time; `data` holds the received part."""

    def __init__(self, data: bytes, seconds: float) -> None:
        super().__init__(f"the end did not come within {seconds:g} s")
        self.data = data


def read_within(pieces: Iterable[bytes], most: int, seconds: float = math.inf) -> bytes:
    """Join `pieces`, which must not be decompressed yet: a decompressor knows no bound.

    Raises:
        TooLongError: there are more than `most` bytes.
        TooSlowError: the last piece had not arrived after `seconds`.
    """
    body, began = bytearray(), time.monotonic()
    for piece in pieces:
        body += memoryview(piece)[: most + 1 - len(body)]
        if len(body) > most:
            raise TooLongError(bytes(body[:most]), most)
        if time.monotonic() - began > seconds:
            raise TooSlowError(bytes(body), seconds)
    return bytes(body)


def inflate_within(data: bytes, most: int) -> bytes:
    """Decompress `zlib.compress` output, without room for more than `most` bytes.

    Raises:
        TooLongError: it holds more.
        ValueError: it is damaged.
    """
    inflating = zlib.decompressobj()
    try:
        raw = inflating.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if len(raw) > most:
        raise TooLongError(raw[:most], most)
    if not inflating.eof:
        raise ValueError("it cannot be decompressed: its end is missing")
    return raw
