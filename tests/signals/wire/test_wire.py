"""Segments survive the wire, and hostile ones are refused without harm."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.signals import places, wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import ConfigurationError, SegmentError, UnsupportedFormatError
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Segment, SegmentKey, frame

KEY = SegmentKey("llama-7b", 3, "node-1", 2**63 - 1, 42)
LATER = wire.WRITTEN_FORMAT + 1
"""A format that this version does not know."""


def random_rows(kind: Kind, count: int, seed: int) -> wire.Rows:
    """Return `count` rows of random bytes: every bit pattern that a field can hold."""
    raw = np.random.default_rng(seed).bytes(count * DTYPES[kind].itemsize)
    return np.frombuffer(raw, dtype=DTYPES[kind]).copy()


def segment(counts: dict[Kind, int], seed: int = 0) -> Segment:
    """Return a segment with this many random rows of each kind."""
    tables = {kind: random_rows(kind, count, seed) for kind, count in counts.items()}
    return Segment(KEY, ClockPair(5, 7), tables)


def later_format(number: int, more: bytes = b"what a later format adds") -> bytes:
    """Return a whole segment in a format that no version writes yet."""
    header = frame.pack_key(KEY, ClockPair(5, 7)) + more
    return frame.close_frame(number, header, b"a payload of its own", 1 << 20)


@given(
    counts=st.dictionaries(st.sampled_from([*Kind][:16]), st.integers(0, 40)),
    seed=st.integers(0, 2**32),
)
def test_round_trip_is_exact(counts: dict[Kind, int], seed: int) -> None:
    sent = segment(counts, seed)
    received = wire.decode(wire.encode(sent))
    assert (received.key, received.clock) == (sent.key, sent.clock)
    full = {kind: rows for kind, rows in sent.tables.items() if len(rows)}
    assert received.tables.keys() == full.keys()
    for kind, rows in full.items():
        assert received.tables[kind].tobytes() == rows.tobytes()


@given(data=st.data())
def test_any_flipped_byte_is_noticed(data: st.DataObject) -> None:
    good = wire.encode(segment({Kind.STEP: 9, Kind.HOST: 2}))
    position = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SegmentError):
        wire.decode(bytes(bad))


def test_truncation_is_noticed_wherever_it_cuts() -> None:
    good = wire.encode(segment({Kind.STEP: 4}))
    for end in range(len(good)):
        with pytest.raises(SegmentError):
            wire.decode(good[:end])
    with pytest.raises(SegmentError):
        wire.decode(good + b"x")


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_garbage_never_raises_anything_else(garbage: bytes) -> None:
    pieces = [garbage, *(frame.magic(number) + garbage for number in (wire.WRITTEN_FORMAT, LATER))]
    for piece in pieces:
        for read in (wire.decode, wire.peek_key, wire.format_of):
            try:
                read(piece)
            except SegmentError:
                continue
            assert read is not wire.decode


@pytest.mark.parametrize("number", (wire.WRITTEN_FORMAT, LATER))
def test_a_lying_length_allocates_nothing(number: int) -> None:
    huge = struct.pack("<8s4I", frame.magic(number), 40, 2**31, 2**32 - 1, 0) + b"x" * 40
    tracemalloc.start()
    with pytest.raises(SegmentError, match="more bytes than a segment may have"):
        wire.decode(huge)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "start", [b"SWSEG00\n", b"SWSEG1x\n", b"SWSEG 1\n", b"SWSEG01 ", b"swseg01\n"]
)
def test_a_start_that_no_format_has_is_refused(start: bytes) -> None:
    with pytest.raises(SegmentError) as refused:
        wire.decode(start + bytes(16))
    assert not isinstance(refused.value, UnsupportedFormatError)


def test_bodies_are_cut_into_their_segments() -> None:
    pieces = [wire.encode(segment({Kind.STEP: count}, count)) for count in (1, 5, 3)]
    pieces += [later_format(LATER), later_format(99)]
    assert list(wire.split(b"".join(pieces))) == pieces
    assert list(wire.split(pieces[0] + b"tail")) == [pieces[0], b"tail"]
    assert list(wire.split(b"")) == []


@pytest.mark.parametrize("number", [LATER, 57, 99])
def test_a_later_format_is_told_apart_from_damage_and_can_be_named(number: int) -> None:
    data = later_format(number)
    with pytest.raises(UnsupportedFormatError, match=f"format {number}; .* reads 1$") as refused:
        wire.decode(data)
    assert refused.value.format == wire.format_of(data) == number
    assert wire.peek_key(data) == KEY
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    for piece in (damaged, data[:-1], data + b"x", data.replace(b"SWSEG%02d" % number, b"SWSEG44")):
        with pytest.raises(SegmentError) as refused_too:
            wire.decode(piece)
        assert not isinstance(refused_too.value, UnsupportedFormatError)


def test_a_key_is_read_as_soon_as_its_bytes_are_there() -> None:
    for data in (wire.encode(segment({Kind.STEP: 1})), later_format(LATER)):
        prefix = data[: frame.PREFIX.size + len(frame.pack_key(KEY, ClockPair(5, 7)))]
        assert wire.peek_key(prefix) == KEY
        with pytest.raises(SegmentError):
            wire.peek_key(prefix[:-1])


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (KEY._replace(spool=1 << 63), "out of range"),
        (KEY._replace(sequence=(1 << 64) - 1), "out of range"),
        (KEY._replace(job="../etc"), "bad job name"),
        (KEY._replace(job=""), "bad job name"),
        (KEY._replace(node="nöde"), "bad node name"),
    ],
)
def test_a_key_that_is_none_is_refused(key: SegmentKey, reason: str) -> None:
    data = wire.encode(Segment(key, ClockPair(5, 7), {}))
    with pytest.raises(SegmentError, match=reason):
        wire.decode(data)
    with pytest.raises(SegmentError, match=reason):
        wire.peek_key(data)


def test_more_rows_than_a_reader_takes_are_not_written() -> None:
    rows = np.zeros(wire.MAX_ROWS + 1, dtype=DTYPES[Kind.CURSOR])
    with pytest.raises(SegmentError, match="split it"):
        wire.encode(Segment(KEY, ClockPair(5, 7), {Kind.CURSOR: rows}))


def test_rows_of_a_wrong_dtype_are_not_written() -> None:
    rows = np.zeros(1, dtype=DTYPES[Kind.GAP])
    with pytest.raises(SegmentError, match="wrong dtype"):
        wire.encode(Segment(KEY, ClockPair(5, 7), {Kind.STEP: rows}))


def test_a_segment_of_a_node_has_a_name_that_no_job_can_have() -> None:
    with pytest.raises(ConfigurationError):
        places.checked_name(places.NODE_STREAM, "job name")
    key = SegmentKey(places.NODE_STREAM, 0, "gpu-07", 1, 2)
    node_segment = Segment(key, ClockPair(1, 2), {})
    read = wire.decode(wire.encode(node_segment)).key
    assert read == key and read.of_node
    for name in ("@nodes", "@", "node", "@NODE"):
        data = wire.encode(node_segment._replace(key=key._replace(job=name)))
        if name == "node":
            assert not wire.decode(data).key.of_node
            continue
        with pytest.raises(SegmentError, match="bad job name"):
            wire.decode(data)
