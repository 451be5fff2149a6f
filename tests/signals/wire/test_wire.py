"""Segments survive the wire, and hostile ones are refused without harm."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Segment, SegmentKey

KEY = SegmentKey("llama-7b", 3, "node-1", 2**63 - 1, 42)


def random_rows(kind: Kind, count: int, seed: int) -> wire.Rows:
    """`count` rows of random bytes: every bit pattern a field can hold."""
    raw = np.random.default_rng(seed).bytes(count * DTYPES[kind].itemsize)
    return np.frombuffer(raw, dtype=DTYPES[kind]).copy()


def segment(counts: dict[Kind, int], seed: int = 0) -> Segment:
    tables = {kind: random_rows(kind, count, seed) for kind, count in counts.items()}
    return Segment(KEY, ClockPair(5, 7), tables)


@given(
    counts=st.dictionaries(st.sampled_from(list(Kind)), st.integers(0, 40)),
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
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SegmentError):
        wire.decode(bytes(bad))


@given(cut=st.integers(0, 200))
def test_truncation_is_noticed(cut: int) -> None:
    good = wire.encode(segment({Kind.STEP: 4}))
    with pytest.raises(SegmentError):
        wire.decode(good[: min(cut, len(good) - 1)])


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_garbage_never_raises_anything_else(garbage: bytes) -> None:
    for piece in (garbage, wire.MAGIC + garbage):
        with pytest.raises(SegmentError):
            wire.decode(piece)


def test_a_lying_length_allocates_nothing() -> None:
    huge = struct.pack("<8s4I", wire.MAGIC, 40, 2**31, 2**32 - 1, 0) + b"x" * 40
    with pytest.raises(SegmentError, match="more bytes than a segment may have"):
        wire.decode(huge)


def test_bodies_are_cut_into_their_segments() -> None:
    pieces = [wire.encode(segment({Kind.STEP: count}, count)) for count in (1, 5, 3)]
    assert list(wire.split(b"".join(pieces))) == pieces
    assert list(wire.split(pieces[0] + b"tail")) == [pieces[0], b"tail"]
    assert list(wire.split(b"")) == []
