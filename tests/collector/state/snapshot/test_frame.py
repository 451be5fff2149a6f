"""Snapshots as bytes: damage is found, another version is refused, sizes are bounded."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.state.snapshot import (
    About,
    Document,
    frame,
    packed,
    put_together,
    unpacked,
)
from stepwatch.collector.state.snapshot.values import taken_apart
from stepwatch.signals.errors import SnapshotError
from stepwatch.signals.records import DTYPES, Kind
from tests.collector.histories import state_of

VALUE = {
    "text": "x" * 1000,
    "rows": np.ones(5, dtype=DTYPES[Kind.COLLECTIVE]),
    "plane": np.random.default_rng(1).random((40, 50)),
    "empty": np.zeros((3, 0), dtype=np.int16),
    "nan": float("nan"),
}
ABOUT = About("llama", 7, 12.5)
WHOLE = packed(taken_apart(VALUE), ABOUT)


def test_a_value_survives_as_bytes() -> None:
    about, document = unpacked(WHOLE)
    assert about == ABOUT
    back = put_together(document)
    assert list(state_of(back)) == list(state_of(VALUE))
    back["plane"][0, 0] = 3.0


def test_a_large_value_is_cut_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "PART_BYTES", 1000)
    back = put_together(unpacked(packed(taken_apart(VALUE), ABOUT))[1])
    assert list(state_of(back)) == list(state_of(VALUE))


def test_bytes_of_many_parts_are_those_of_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    document = taken_apart(VALUE)
    stream = b"".join(map(bytes, frame._cut(b"tree", [*document.arrays])))
    monkeypatch.setattr(frame, "PART_BYTES", 7)
    parts = list(frame._cut(b"tree", [*document.arrays]))
    assert {len(part) for part in parts[:-1]} == {7}
    assert b"".join(parts) == stream == b"tree" + b"".join(a.tobytes() for a in document.arrays)


@pytest.mark.parametrize("direction", ["packing", "unpacking"])
def test_a_large_state_is_held_once_beside_its_compressed_bytes(direction: str) -> None:
    """A second copy of the whole state would double the memory of a collector at each snapshot."""

    def state() -> Document:
        """A state of 128 MiB, which shrinks to kilobytes."""
        return Document(["list"], [np.zeros(4 << 20) for _ in range(4)])

    document, data = state(), packed(state(), ABOUT)
    size = sum(array.nbytes for array in document.arrays)
    tracemalloc.start()
    try:
        result = packed(document, ABOUT) if direction == "packing" else unpacked(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result and len(document.arrays) == (0 if direction == "packing" else 4)
    held_bytes = 0 if direction == "packing" else size
    assert peak < held_bytes + 0.5 * size


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found(position: int, change: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] ^= change
    with pytest.raises(SnapshotError):
        unpacked(bytes(damaged))


@given(st.integers(0, len(WHOLE) - 1))
def test_a_snapshot_that_was_cut_off_is_found(size: int) -> None:
    with pytest.raises(SnapshotError):
        unpacked(WHOLE[:size])


@given(st.binary(max_size=200))
def test_other_bytes_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        unpacked(data)


def test_a_state_of_another_version_is_refused_with_both_numbers() -> None:
    later = WHOLE[:6] + struct.pack("<H", 900) + WHOLE[8:]
    with pytest.raises(SnapshotError, match="of state 900, this version reads"):
        unpacked(later)


def written(header: Any, content: bytes = b"") -> bytes:
    """A snapshot whose checksum is right, whatever its header says."""
    text = json.dumps(header).encode()
    body = struct.pack("<I", len(text)) + text + content
    prefix = struct.pack("<4sHH", frame.MAGIC, frame.FORMAT, frame.STATE_VERSION)
    return prefix + struct.pack("<I", zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "header",
    [
        [],
        {},
        {"tree_bytes": 0, "arrays": [], "parts": []},
        {"about": ["j"], "tree_bytes": 0, "arrays": [], "parts": []},
        {"tree_bytes": "1", "arrays": 5, "parts": []},
        {"tree_bytes": float("inf"), "arrays": [], "parts": []},
        {"tree_bytes": 4, "arrays": [], "parts": [[1 << 40, 1]]},
        {"tree_bytes": 4, "arrays": [], "parts": [[frame.PART_BYTES, 1]] * 1000},
        {"tree_bytes": 4, "arrays": [], "parts": [[4, 4]]},
        {"tree_bytes": 4, "arrays": [], "parts": [[4, -4]]},
    ],
)
def test_a_header_that_promises_what_is_not_there_is_refused(header: Any) -> None:
    with pytest.raises(SnapshotError):
        unpacked(written(header, b"abcd"))


@pytest.mark.parametrize(
    "described",
    [
        ["|O", [1]],
        ["<f8", [-1]],
        ["<f8", [1 << 60]],
        ["<f8", [1 << 70]],
        ["<f8", [1 << 40] * 9],
        ["<f8", 4],
        ["|V0", [5]],
        [[["a"]], [1]],
        7,
    ],
)
def test_an_array_that_no_state_holds_is_refused(described: Any) -> None:
    frame_bytes = frame.packed(Document(1, [np.zeros(8)]), ABOUT)
    header_start = frame._PREFIX.size
    size = struct.unpack_from("<I", frame_bytes, 12)[0]
    header = json.loads(frame_bytes[header_start : header_start + size])
    header["arrays"] = [described]
    with pytest.raises(SnapshotError):
        unpacked(written(header, frame_bytes[header_start + size :]))


def test_a_position_that_is_no_number_is_refused() -> None:
    about = About("llama", float("inf"), 12.5)  # type: ignore[arg-type]
    with pytest.raises(SnapshotError):
        unpacked(packed(taken_apart(1), about))


def test_a_state_larger_than_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "MAX_BYTES", 100)
    with pytest.raises(SnapshotError, match="more than a snapshot may"):
        packed(taken_apart(VALUE), ABOUT)
