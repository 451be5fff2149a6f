"""zstd with bounds: compressors and decompressors live as long as their thread."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

import zstandard

from stepwatch.signals.errors import SegmentError

_MAX_WINDOW_BYTES = 1 << 26
_MAX_RATIO = 1 << 15
"""zstd's best: a block of 128 KiB in 4 bytes (RFC 8878, "Blocks"). No frame holds more."""
_DICTIONARY = Path(__file__).with_name("format3.dictionary")


class Codec(threading.local):
    """Compresses and decompresses at one level, with or without the dictionary of format 3.

    zstd's contexts serve one thread at a time, and making one costs more than a small segment.
    """

    def __init__(self, level: int, *, dictionary: bool) -> None:
        if dictionary:
            shared = _dictionary()
            self._compressor = zstandard.ZstdCompressor(
                level=level, dict_data=shared, write_dict_id=False
            )
            self._decompressor = zstandard.ZstdDecompressor(
                dict_data=shared, max_window_size=_MAX_WINDOW_BYTES
            )
        else:
            self._compressor = zstandard.ZstdCompressor(level=level)
            self._decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)

    def deflate(self, raw: bytes) -> bytes:
        """Compress into one frame that states the size of its content."""
        return self._compressor.compress(raw)

    def inflate(self, payload: bytes, raw_size: int) -> bytes:
        """Decompress one frame of exactly `raw_size` bytes.

        Raises:
            SegmentError: the frame is damaged, or is of another size.
        """
        # max_output_size is ignored where the frame states a size of its own: check that first.
        try:
            stated = zstandard.frame_content_size(payload)
            if stated != raw_size:
                raise SegmentError(f"a frame of {stated} bytes in a payload of {raw_size}")
            if raw_size > _MAX_RATIO * len(payload):
                raise SegmentError(f"{len(payload)} bytes cannot hold the {raw_size} promised")
            raw = self._decompressor.decompress(payload, max_output_size=max(raw_size, 1))
        except zstandard.ZstdError as error:
            raise SegmentError(f"its payload cannot be decompressed: {error}") from error
        if len(raw) != raw_size:
            raise SegmentError(f"{len(raw)} bytes came out of a payload of {raw_size}")
        return raw


@cache
def _dictionary() -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(_DICTIONARY.read_bytes())
