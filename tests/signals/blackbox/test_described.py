"""Rings of other writers' versions are read by field name; damage is a condition with a name."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwatch.signals.blackbox import Identity, LayoutCondition, RingReader, RingWriter, described
from stepwatch.signals.blackbox.described import LAYOUT_AT, pack_layout, read_layout
from stepwatch.signals.blackbox.layout import (
    HEAD_AT,
    HEADER_SIZE,
    IDENTITY_CRC_AT,
    IDENTITY_VERSION,
    SLOT_SIZE,
)
from stepwatch.signals.errors import RingError
from stepwatch.signals.records import BODIES, DTYPES, RING_KINDS, Kind

SLOT = "seq:u8 kind:u2 reserved:u2 step:u4 time_ns:u8"
LATER = 99
"""A kind that no version knows."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a ring of this version with two LIFECYCLE records."""
    ring = RingWriter(tmp_path / "3", Identity("job", 0, 3, 4, "node-1", 1, 7, 16))
    for number in (1, 2):
        ring.write(Kind.LIFECYCLE, number, number * 10, 1, number, b"now")
    ring.close()
    return tmp_path / "3"


def block(*texts: tuple[int, str]) -> bytes:
    """Return a layout block as another version's writer packs it."""
    content = b"".join(struct.pack("<HH", kind, len(text)) for kind, text in texts)
    content += "".join(text for _, text in texts).encode()
    return head(len(texts), LAYOUT_AT + 24, content) + content


def head(count: int, offset: int, content: bytes) -> bytes:
    """Return the fixed fields of a layout block, with the checksum of `content`."""
    fields = struct.pack("<8sHHII", b"SWLAYOUT", 1, count, offset, len(content))
    return fields + zlib.crc32(content, zlib.crc32(fields)).to_bytes(4, "little")


def patch(path: Path, offset: int, data: bytes) -> None:
    """Overwrite bytes of a ring."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def put_slot(path: Path, seq: int, kind: int, body: bytes) -> None:
    """Write a whole slot as a later version may, and advance the head to it."""
    slot = (struct.pack("<QHH", seq, kind, 0) + body).ljust(SLOT_SIZE - 4, b"\0")
    patch(path, HEADER_SIZE + (seq - 1) * SLOT_SIZE, slot + zlib.crc32(slot).to_bytes(4, "little"))
    patch(path, HEAD_AT, seq.to_bytes(8, "little"))


def set_version(path: Path, version: int) -> None:
    """Give a ring another identity version."""
    raw = bytearray(path.read_bytes()[:IDENTITY_CRC_AT])
    raw[8:12] = version.to_bytes(4, "little")
    patch(path, 0, bytes(raw) + zlib.crc32(raw).to_bytes(4, "little"))


def test_a_ring_describes_every_kind_that_it_carries() -> None:
    packed = bytes(LAYOUT_AT) + pack_layout()
    layout = read_layout(lambda offset, size: packed[offset : offset + size])
    assert layout.condition is LayoutCondition.DESCRIBED
    assert set(layout.converters) == set(map(int, RING_KINDS))
    for kind, converter in layout.converters.items():
        names = {name for name, _ in BODIES[Kind(kind)]}
        assert names <= set(converter.source.names or ())


def test_fields_are_found_by_name_wherever_the_writer_put_them(path: Path) -> None:
    later = f"{SLOT} text:S8 note:S4 value:i4 event:u4"
    patch(path, LAYOUT_AT, block((Kind.LIFECYCLE, later)))
    put_slot(path, 3, Kind.LIFECYCLE, struct.pack("<IQ8s4siI", 7, 70, b"later", b"x", -5, 3))
    reader = RingReader(path)
    row = reader.read(3).rows[Kind.LIFECYCLE][0]
    assert (row["rank"], row["seq"], row["step"], row["time_ns"]) == (3, 3, 7, 70)
    assert (row["event"], row["value"], row["text"]) == (3, -5, b"later")
    reader.close()


def test_a_field_that_the_writer_lacks_is_unknown(path: Path) -> None:
    patch(path, LAYOUT_AT, block((Kind.STEP, f"{SLOT} duration_ns:u4")))
    put_slot(path, 3, Kind.STEP, struct.pack("<IQI", 7, 70, 1_000))
    reader = RingReader(path)
    row = reader.read(3).rows[Kind.STEP][0]
    assert row["duration_ns"] == 1_000
    assert np.isnan(row["loss"])
    reader.close()


@pytest.mark.parametrize("kind", [LATER, Kind.HOST, 0])
def test_records_of_kinds_that_rings_do_not_carry_are_counted_and_are_not_torn(
    path: Path, kind: int
) -> None:
    patch(path, LAYOUT_AT, block((Kind.LIFECYCLE, f"{SLOT} event:u2"), (LATER, f"{SLOT} x:i8")))
    put_slot(path, 3, kind, b"")
    put_slot(path, 4, Kind.STEP, b"")  # a known kind that this ring does not describe
    reader = RingReader(path)
    read = reader.read()
    assert (read.torn, read.overruns, read.next_seq) == (0, 0, 5)
    assert read.rows.keys() == {Kind.LIFECYCLE}
    assert reader.unknown_kinds == 2
    reader.close()


def test_a_ring_of_a_later_version_is_read_if_it_describes_itself(path: Path) -> None:
    set_version(path, IDENTITY_VERSION + 1)
    reader = RingReader(path)
    assert reader.read().rows[Kind.LIFECYCLE]["value"].tolist() == [1, 2]
    assert reader.refresh_identity().job == "job"
    reader.close()
    patch(path, LAYOUT_AT, bytes(64))
    with pytest.raises(RingError, match="schema"):
        RingReader(path)
    set_version(path, IDENTITY_VERSION - 1)
    with pytest.raises(RingError, match="schema"):
        RingReader(path)


BAD_BLOCKS = {
    "no block": bytes(HEADER_SIZE - LAYOUT_AT),
    "two descriptions of one kind": block((4, SLOT), (4, SLOT)),
    "another magic": b"SWLAYOUX" + pack_layout()[8:],
    "version 0": pack_layout()[:8] + bytes(2) + pack_layout()[10:],
    "larger than any": struct.pack("<8sHHIII", b"SWLAYOUT", 1, 1, LAYOUT_AT, (1 << 32) - 1, 0),
    "past the end": struct.pack("<8sHHIII", b"SWLAYOUT", 1, 1, (1 << 32) - 1, 100, 0),
    "more kinds than bytes": struct.pack("<8sHHIII", b"SWLAYOUT", 1, 65_535, LAYOUT_AT, 8, 0),
    "a slot too small": block((1, " ".join(f"x{number}:i8" for number in range(16)))),
    "an object": block((1, f"{SLOT} event:O")),
    "a field twice": block((1, f"{SLOT} step:u4")),
    "an empty description": block((1, "")),
}


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_a_damaged_layout_block_is_a_condition_and_the_ring_is_still_read(
    path: Path, name: str
) -> None:
    patch(path, LAYOUT_AT, BAD_BLOCKS[name])
    reader = RingReader(path)
    assert reader.layout_condition is LayoutCondition.DAMAGED
    assert reader.read().rows[Kind.LIFECYCLE]["value"].tolist() == [1, 2]
    reader.close()
    set_version(path, IDENTITY_VERSION + 1)
    with pytest.raises(RingError, match="schema"):
        RingReader(path)


@given(offset=st.integers(0, len(pack_layout()) - 1), flip=st.integers(1, 255))
def test_any_flipped_byte_of_the_block_is_noticed(offset: int, flip: int) -> None:
    raw = bytearray(bytes(LAYOUT_AT) + pack_layout())
    raw[LAYOUT_AT + offset] ^= flip
    layout = read_layout(lambda start, size: bytes(raw[start : start + size]))
    assert layout.condition is LayoutCondition.DAMAGED
    assert set(layout.converters) == RING_KINDS


@given(st.binary(min_size=1, max_size=400))
def test_garbage_in_place_of_the_block_does_no_harm(garbage: bytes) -> None:
    raw = (bytes(LAYOUT_AT) + garbage).ljust(HEADER_SIZE, b"\0")
    layout = read_layout(lambda offset, size: raw[offset : offset + size])
    assert layout.condition is not LayoutCondition.DESCRIBED


def test_a_block_that_outgrows_the_header_may_lie_elsewhere(path: Path) -> None:
    text = f"{SLOT} event:u2 value:i8 text:S56".encode()
    content = struct.pack("<HH", Kind.LIFECYCLE, len(text)) + text
    size = path.stat().st_size
    patch(path, LAYOUT_AT, head(1, size, content))
    patch(path, size, content)
    reader = RingReader(path)
    assert reader.layout_condition is LayoutCondition.DESCRIBED
    assert set(reader.read().rows) == {Kind.LIFECYCLE}
    reader.close()


def test_too_large_a_layout_is_refused_when_the_ring_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(described, "HEADER_SIZE", LAYOUT_AT + 100)
    with pytest.raises(RingError, match="does not fit"):
        RingWriter(tmp_path / "0", Identity("job", 0, 3, 4, "node-1", 1, 7, 16))


def reads_or_refuses(path: Path) -> None:
    """Read a ring, or refuse it in one line; nothing else may happen."""
    try:
        reader = RingReader(path)
    except RingError:
        return
    try:
        read = reader.read(limit=100)
        assert all(rows.dtype == DTYPES[kind] for kind, rows in read.rows.items())
        reader.refresh_identity()
        assert reader.live().step >= 0 <= reader.collective().entered
    finally:
        reader.close()


def test_every_byte_of_identity_and_layout_may_be_damaged(path: Path) -> None:
    good = path.read_bytes()
    for offset in (*range(400), *range(IDENTITY_CRC_AT, LAYOUT_AT + len(pack_layout()), 3)):
        patch(path, offset, bytes([good[offset] ^ 0xFF]))
        reads_or_refuses(path)
        patch(path, offset, good[offset : offset + 1])


def test_a_ring_may_end_anywhere(path: Path) -> None:
    good = path.read_bytes()
    for end in (*range(0, HEADER_SIZE, 61), *range(HEADER_SIZE, len(good) + 1, 64)):
        path.write_bytes(good[:end])
        reads_or_refuses(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, HEADER_SIZE + 400), st.binary(min_size=1, max_size=9))))
def test_bytes_may_be_damaged_together(path: Path, damage: list[tuple[int, bytes]]) -> None:
    good = path.read_bytes()
    for offset, data in damage:
        patch(path, offset, data)
    reads_or_refuses(path)
    path.write_bytes(good)
