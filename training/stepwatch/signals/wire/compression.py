"""zstd with bounds: compressors and decompressors live as long as their thread.

The package is imported at the first use: code that only names records and formats runs without it.
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
"""zstd's best: a block with 128 KiB in 4 bytes (RFC 8878, "Blocks"). No frame holds more."""
_DICTIONARY = Path(__file__).with_name("format1.dictionary")


class _Contexts(NamedTuple):
    """One thread's compressor and decompressor."""

    compressor: zstandard.ZstdCompressor
    decompressor: zstandard.ZstdDecompressor
    stated_size: _Sizes
    error: type[Exception]


class Codec(threading.local):
    """Compresses and decompresses at one level, with or without format 1's dictionary.

    zstd's contexts serve one thread at a time, and creating one costs more than a small segment.
    """

    def __init__(self, level: int, *, dictionary: bool) -> None:
        self._level = level
        self._dictionary = dictionary
        self._contexts: _Contexts | None = None

    def deflate(self, raw: bytes) -> bytes:
        """Compress into one frame that states its content's size."""
        # zstandard returns bytes that still occupy the worst case's memory: make an exact copy.
        return bytes(memoryview(self._thread_contexts().compressor.compress(raw)))

    def inflate(self, payload: bytes, raw_size: int) -> bytes:
        """Decompress one frame with exactly `raw_size` bytes.

        Raises:
            SegmentError: the frame is damaged, or has another size.
        """
        contexts = self._thread_contexts()
        # A frame that states its content's size never gets more memory than that.
        try:
            stated = contexts.stated_size(payload)
            if stated != raw_size:
                raise SegmentError(f"a frame of {stated} bytes in a payload of {raw_size}")
            if raw_size > _MAX_RATIO * len(payload):
                raise SegmentError(f"{len(payload)} bytes cannot hold the {raw_size} promised")
            raw = contexts.decompressor.decompress(payload)
        except contexts.error as error:
            raise SegmentError(f"its payload cannot be decompressed: {error}") from error
        if len(raw) != raw_size:
            raise SegmentError(f"{len(raw)} bytes came out of a payload of {raw_size}")
        return raw

    def _thread_contexts(self) -> _Contexts:
        """Return this thread's contexts, created at their first use."""
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
