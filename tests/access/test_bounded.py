"""Input from peers and stored data take no more memory than their bound."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from stepwatch.signals.access.bounded import (
    TooLongError,
    TooSlowError,
    inflate_within,
    read_within,
)


def test_what_fits_is_read_whole() -> None:
    assert read_within([b"ab", b"", b"c"], 3) == b"abc"
    assert read_within([], 0) == b""


def test_reading_ends_with_the_piece_that_passes_the_bound() -> None:
    pieces: list[int] = []

    def endless() -> Iterator[bytes]:
        while True:
            pieces.append(1)
            yield b"ab"

    with pytest.raises(TooLongError, match="longer than 5 bytes") as raised:
        read_within(endless(), 5)
    assert raised.value.data == b"ababa" and len(pieces) == 3


def test_reading_ends_after_its_time() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b""

    with pytest.raises(TooSlowError, match="within 0 s"):
        read_within(endless(), 5, 0.0)


def test_what_was_compressed_comes_back_within_the_bound() -> None:
    raw = bytes(1000)
    assert inflate_within(zlib.compress(raw), 1000) == raw
    assert inflate_within(zlib.compress(b""), 0) == b""
    with pytest.raises(TooLongError) as raised:
        inflate_within(zlib.compress(raw), 999)
    assert len(raised.value.data) == 999


@pytest.mark.parametrize("data", [b"", b"no zlib", zlib.compress(bytes(1000))[:-1]])
def test_damaged_data_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be decompressed"):
        inflate_within(data, 1000)
