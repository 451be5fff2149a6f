"""Segments of other writers' versions are decoded by name; their additions do no harm."""

from __future__ import annotations

import math
import struct
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.signals import layouts, wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.layouts import Converter
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind
from stepwatch.signals.wire import Segment, format1, frame

from .test_wire import KEY, random_rows, segment

LATER = 900
"""A kind that no version knows."""
WIDTHS = {"u": (1, 2, 4, 8), "i": (1, 2, 4, 8), "f": (4, 8), "S": (1, 16, 96)}


def directory(*tables: tuple[int, int, bytes]) -> bytes:
    """Return the directory of a payload: kind, rows and description of each table."""
    entries = b"".join(struct.pack("<HIH", kind, rows, len(text)) for kind, rows, text in tables)
    return struct.pack("<H", len(tables)) + entries + b"".join(text for _, _, text in tables)


def forged(raw: bytes, raw_size: int | None = None) -> bytes:
    """Return a segment with a right checksum around any content."""
    header = frame.pack_key(KEY, ClockPair(5, 7))
    size = len(raw) if raw_size is None else raw_size
    return frame.close_frame(1, header, format1._codec.deflate(raw), size)


def from_later(tables: dict[int, Any]) -> bytes:
    """Return a segment of a writer whose records have other fields."""
    head = directory(*((k, len(r), layouts.describe(r.dtype).encode()) for k, r in tables.items()))
    blocks = b"".join(format1._pack(rows) for rows in tables.values())
    return forged(len(head).to_bytes(4, "little") + head + blocks)


@st.composite
def other_layout(draw: st.DrawFn, kind: Kind) -> np.dtype[np.void]:
    """Draw a kind's fields with some removed, added, widened, narrowed, and in another order."""
    names = draw(st.lists(st.sampled_from(DTYPES[kind].names or ()), min_size=1, unique=True))
    fields = []
    for name in names:
        letter, size = DTYPES[kind][name].kind, DTYPES[kind][name].itemsize
        width = draw(st.sampled_from((size, *WIDTHS[letter])))
        fields.append((name, f"<{letter}{width}"))
    added = draw(st.lists(st.sampled_from(("new_a", "new_b", "new_c")), unique=True))
    fields += [(name, draw(st.sampled_from(("<u8", "<f4", "S5")))) for name in added]
    return np.dtype(draw(st.permutations(fields)))


@settings(max_examples=200)
@given(data=st.data(), kind=st.sampled_from(list(Kind)), seed=st.integers(0, 2**32))
def test_rows_of_another_version_are_read_by_name(
    data: st.DataObject, kind: Kind, seed: int
) -> None:
    source = data.draw(other_layout(kind))
    count = data.draw(st.integers(1, 5))
    sent = np.frombuffer(np.random.default_rng(seed).bytes(count * source.itemsize), source)
    received = wire.decode(from_later({kind: sent})).tables[kind]
    assert received.dtype == DTYPES[kind]
    assert len(received) == count
    for name in DTYPES[kind].names or ():
        unknown = UNKNOWN[kind][name]
        if name not in (source.names or ()):
            np.testing.assert_array_equal(
                received[name], np.full(count, unknown, received[name].dtype)
            )
        elif source[name] == DTYPES[kind][name]:
            assert received[name].tobytes() == sent[name].tobytes()
        else:
            check_converted(sent[name].tolist(), received[name].tolist(), unknown)


def check_converted(sent: list[Any], received: list[Any], unknown: Any) -> None:
    """A value is the sent one, at most rounded or cut, or it is unknown."""
    for sent_value, received_value in zip(sent, received, strict=True):
        if isinstance(sent_value, bytes):
            assert sent_value.startswith(received_value)
        elif isinstance(sent_value, float):
            is_close = math.isclose(sent_value, received_value, rel_tol=1e-6, abs_tol=1e-44)
            assert is_close or math.isnan(received_value)
        else:
            assert received_value in (sent_value, np.asarray(unknown).item())


def test_a_reader_of_yesterday_reads_the_writer_of_today() -> None:
    yesterday = np.dtype([(n, DTYPES[Kind.HOST][n]) for n in (DTYPES[Kind.HOST].names or ())[:9]])
    sent = random_rows(Kind.HOST, 3, 1)
    read = Converter(DTYPES[Kind.HOST], yesterday, UNKNOWN[Kind.HOST])(sent)
    for name in yesterday.names or ():
        assert read[name].tobytes() == sent[name].tobytes()


def test_a_kind_that_is_not_known_is_kept_with_its_fields() -> None:
    rows = np.array([(1, b"a", 0.5), (2, b"b", 1.5)], dtype="<u2,S3,<f8")
    rows.dtype.names = ("rank", "text", "share")
    sent = from_later({Kind.STEP: random_rows(Kind.STEP, 2, 0), LATER: rows})
    received = wire.decode(sent)
    assert received.tables.keys() == {Kind.STEP}
    assert received.unknown.keys() == {LATER}
    assert received.row_count == 4
    assert received.unknown[LATER].dtype == rows.dtype
    decoded = wire.decode(wire.encode(received._replace(tables={})))
    assert decoded.tables == {}
    assert decoded.unknown[LATER].tobytes() == rows.tobytes()


@pytest.mark.parametrize("kind", [0, -1, Kind.STEP, 1 << 16])
def test_only_a_kind_that_is_not_known_is_written_as_one(kind: int) -> None:
    rows = np.zeros(1, dtype=[("rank", "<i4")])
    with pytest.raises(SegmentError, match="not an unknown kind"):
        wire.encode(Segment(KEY, ClockPair(5, 7), {}, {kind: rows}))


def test_rows_that_cannot_be_described_are_not_written() -> None:
    rows = np.zeros(1, dtype=[("when", "<M8[ns]")])
    with pytest.raises(SegmentError, match="cannot be described"):
        wire.encode(Segment(KEY, ClockPair(5, 7), {}, {LATER: rows}))


STEP = layouts.describe(DTYPES[Kind.STEP]).encode()
GAP = layouts.describe(DTYPES[Kind.GAP]).encode()
ONE_GAP = bytes(2 * DTYPES[Kind.GAP].itemsize)
"""A block of one row: the row, and its difference from itself."""
BAD = {
    "empty": b"",
    "half a size": b"\1\0",
    "a directory past the end": struct.pack("<I", 1 << 20),
    "the largest directory": struct.pack("<I", (1 << 32) - 1),
    "tables without a list": struct.pack("<IH", 2, 65_535),
    "half a count": struct.pack("<I", 1) + b"\1",
}
BAD_TABLES: dict[str, tuple[list[tuple[int, int, bytes]], bytes]] = {
    "rows that are not there": ([(Kind.GAP, 2, GAP)], ONE_GAP),
    "rows that nobody announced": ([(Kind.GAP, 1, GAP)], ONE_GAP * 2),
    "as many rows as fit into 32 bits": ([(Kind.GAP, (1 << 32) - 1, GAP)], ONE_GAP),
    "more rows than a segment has": ([(LATER, (1 << 18) + 1, b"x:u1")], bytes((1 << 18) + 2)),
    "no rows": ([(Kind.GAP, 0, GAP)], b""),
    "kind 0": ([(0, 1, GAP)], ONE_GAP),
    "a table twice": ([(Kind.GAP, 1, GAP), (Kind.GAP, 1, GAP)], ONE_GAP * 2),
    "no description": ([(Kind.GAP, 1, b"")], ONE_GAP),
    "a field twice": ([(LATER, 1, b"x:u1 x:u1")], bytes(4)),
    "an object": ([(LATER, 1, b"x:O")], bytes(16)),
    "a void": ([(LATER, 1, b"x:V8")], bytes(16)),
    "a moment": ([(LATER, 1, b"x:M8")], bytes(16)),
    "an integer of no size": ([(LATER, 1, b"x:i0")], b""),
    "a text of no size": ([(LATER, 1, b"x:S0")], b""),
    "a huge text": ([(LATER, 1, b"x:S2147483647")], bytes(8)),
    "a name that is none": ([(LATER, 1, b"\xff\xfe:u1")], bytes(2)),
}


@pytest.mark.parametrize("name", [*BAD, *BAD_TABLES])
def test_what_holds_less_or_other_than_it_promises_is_refused(name: str) -> None:
    if name in BAD:
        raw = BAD[name]
    else:
        tables, content = BAD_TABLES[name]
        head = directory(*tables)
        raw = len(head).to_bytes(4, "little") + head + content
    with pytest.raises(SegmentError):
        wire.decode(forged(raw))


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 65_535),
            st.integers(0, (1 << 32) - 1),
            st.one_of(st.sampled_from((STEP, GAP, b"x:u1", b"x:S1024")), st.binary(max_size=30)),
        ),
        max_size=4,
    ),
    st.binary(max_size=200),
)
def test_no_directory_does_harm(tables: list[tuple[int, int, bytes]], content: bytes) -> None:
    head = directory(*tables)
    raw = len(head).to_bytes(4, "little") + head + content
    try:
        decoded = wire.decode(forged(raw))
    except SegmentError:
        return
    assert decoded.row_count <= wire.MAX_ROWS


def test_large_directories_are_not_kept_in_memory() -> None:
    count = 5000
    tables = [(1000 + number, 1, b"a:u1") for number in range(1, count)]
    tracemalloc.start()
    try:
        initial_bytes, _ = tracemalloc.get_traced_memory()
        for rows in range(1, 6):
            head = directory((1000, rows, b"a:u1"), *tables)
            content = bytes(rows + 1 + 2 * len(tables))
            decoded = wire.decode(forged(len(head).to_bytes(4, "little") + head + content))
            assert len(decoded.unknown) == count
        del decoded
        retained_bytes = tracemalloc.get_traced_memory()[0] - initial_bytes
    finally:
        tracemalloc.stop()
    assert retained_bytes < 1 << 20


def test_a_payload_of_another_size_is_refused() -> None:
    raw = bytes(6)
    for size in (0, 5, 7, 1 << 24):
        with pytest.raises(SegmentError):
            wire.decode(forged(raw, size))


def test_a_frame_that_promises_more_than_it_can_hold_allocates_nothing() -> None:
    size = wire.MAX_RAW_BYTES
    payload = zstandard.ZstdCompressor().compress(bytes(size))
    header = frame.pack_key(KEY, ClockPair(5, 7))
    data = frame.close_frame(1, header, payload[:200], size)
    tracemalloc.start()
    with pytest.raises(SegmentError, match="cannot hold"):
        wire.decode(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_the_largest_segment_of_equal_rows_is_read() -> None:
    rows = np.ones(wire.MAX_ROWS, dtype=DTYPES[Kind.CURSOR])
    sent = wire.encode(Segment(KEY, ClockPair(5, 7), {Kind.CURSOR: rows}))
    assert wire.decode(sent).tables[Kind.CURSOR].tobytes() == rows.tobytes()


def test_a_header_that_says_more_after_its_key_is_read() -> None:
    data = wire.encode(segment({Kind.STEP: 2}))
    _, header, payload, raw_size = frame.open_frame(data)
    extended = frame.close_frame(1, header + b"for readers to come", payload, raw_size)
    assert wire.decode(extended).tables.keys() == {Kind.STEP}


def test_threads_do_not_share_a_compressor() -> None:
    sent = [segment({Kind.STEP: 50, Kind.COLLECTIVE: 100}, seed) for seed in range(4)]
    wrong: list[int] = []

    def many(number: int) -> None:
        for _ in range(100):
            decoded = wire.decode(wire.encode(sent[number]))
            if decoded.tables[Kind.STEP].tobytes() != sent[number].tables[Kind.STEP].tobytes():
                wrong.append(number)

    threads = [threading.Thread(target=many, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
