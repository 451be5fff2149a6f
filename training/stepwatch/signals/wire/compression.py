"""zstd with bounds: compressors and decompressors live as long as their thread.

The package is imported at the first use: what only names records and formats runs without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepwatch.signals.errors import SegmentError

if TYPE_CHECKING:
    import zstandard

    _Sizes = Callable[[bytes], int]

_MAX_WINDOW_BYTES = 1 << 26
_MAX_RATIO = 1 << 15
"""zstd's best: a block of 128 KiB in 4 bytes (RFC 8878, "Blocks"). No frame holds more."""
_DICTIONARY = Path(__file__).with_name("format1.dictionary")


class _Contexts(NamedTuple):
    """What one thread compresses and decompresses with."""

    compressor: zstandard.ZstdCompressor
    decompressor: zstandard.ZstdDecompressor
    stated_size: _Sizes
    error: type[Exception]


class Codec(threading.local):
    """Compresses and decompresses at one level, with or without the dictionary of format 1.

    zstd's contexts serve one thread at a time, and making one costs more than a small segment.
    """

    def __init__(self, level: int, *, dictionary: bool) -> None:
        self._level = level
        self._dictionary = dictionary
        self._contexts: _Contexts | None = None

    def deflate(self, raw: bytes) -> bytes:
        """Compress into one frame that states the size of its content."""
        # zstandard returns bytes that still occupy the room of the worst case: an exact copy.
        return bytes(memoryview(self._made().compressor.compress(raw)))

    def inflate(self, payload: bytes, raw_size: int) -> bytes:
        """Decompress one frame of exactly `raw_size` bytes.

        Raises:
            SegmentError: the frame is damaged, or is of another size.
        """
        made = self._made()
        # A frame that states the size of its content is never given more room than that.
        try:
            stated = made.stated_size(payload)
            if stated != raw_size:
                raise SegmentError(f"a frame of {stated} bytes in a payload of {raw_size}")
            if raw_size > _MAX_RATIO * len(payload):
                raise SegmentError(f"{len(payload)} bytes cannot hold the {raw_size} promised")
            raw = made.decompressor.decompress(payload)
        except made.error as error:
            raise SegmentError(f"its payload cannot be decompressed: {error}") from error
        if len(raw) != raw_size:
            raise SegmentError(f"{len(raw)} bytes came out of a payload of {raw_size}")
        return raw

    def _made(self) -> _Contexts:
        """The contexts of this thread, made at their first use."""
        if self._contexts is None:
            self._contexts = _contexts(self._level, dictionary=self._dictionary)
        return self._contexts


def _contexts(level: int, *, dictionary: bool) -> _Contexts:
    import zstandard

    if dictionary:
        shared = _dictionary()
        packing = zstandard.ZstdCompressor(level=level, dict_data=shared, write_dict_id=False)
        unpacking = zstandard.ZstdDecompressor(dict_data=shared, max_window_size=_MAX_WINDOW_BYTES)
    else:
        packing = zstandard.ZstdCompressor(level=level)
        unpacking = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    return _Contexts(packing, unpacking, zstandard.frame_content_size, zstandard.ZstdError)


@cache
def _dictionary() -> zstandard.ZstdCompressionDict:
    import zstandard

    return zstandard.ZstdCompressionDict(_DICTIONARY.read_bytes())
