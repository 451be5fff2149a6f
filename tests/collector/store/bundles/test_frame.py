"""A bundle holds its segments exactly, whatever they are, and says when it is damaged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.store.bundles.frame import Placed, check, packed, unpacked
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Segment, SegmentKey, SentSegment
from tests.collector.made import JOB, random_rows, run_segments
from tests.collector.store.filled import RECEIVED

LATER_STEP = np.dtype([*DTYPES[Kind.STEP].descr, ("of_a_later_release", "<u8")])
"""What an agent of a later release may send."""
NARROW = np.dtype([("rank", "<i2"), ("text", "S3"), ("value", "<f8"), ("small", "u1")])


def assert_same(segment: Segment, expected: Segment) -> None:
    assert (segment.key, segment.clock) == (expected.key, expected.clock)
    for tables, expected_tables in (
        (segment.tables, expected.tables),
        (segment.unknown, expected.unknown),
    ):
        assert list(tables) == list(expected_tables)
        for rows, expected_rows in zip(tables.values(), expected_tables.values(), strict=True):
            assert rows.dtype == expected_rows.dtype and rows.tobytes() == expected_rows.tobytes()


def placed(sent: list[bytes]) -> list[Placed]:
    return [
        Placed(3 * number + 1, RECEIVED + number * number, wire.read_sent(data))
        for number, data in enumerate(sent)
    ]


def rows_of(dtype: np.dtype[np.void], count: int, seed: int) -> Rows:
    """Rows of random bytes in some fields, and of few values in the others."""
    draw = np.random.default_rng(seed)
    rows = np.frombuffer(draw.bytes(count * dtype.itemsize), dtype).copy()
    for name in draw.choice(dtype.names or (), len(dtype.names or ()) // 2, replace=False):
        rows[name] = rows[name][:1]
    return rows


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 3)), min_size=1, max_size=6))
def test_segments_of_any_kinds_and_layouts_come_back(shape: list[tuple[int, int]]) -> None:
    sent = []
    for number, (count, attempt) in enumerate(shape):
        key = SegmentKey(JOB, attempt, f"node-{attempt}", (1 << 63) - 1 - attempt, number)
        tables = [(int(Kind.STEP), rows_of(DTYPES[Kind.STEP], 3, number))]
        if attempt == 1:
            tables = [(int(Kind.STEP), rows_of(LATER_STEP, 2, number))]
        if count:
            tables.append((999, rows_of(NARROW, count, number)))
        if attempt > 1 and count:
            tables.insert(
                1, (int(Kind.NIC), random_rows(Kind.NIC, count, np.random.default_rng(1)))
            )
        clock = ClockPair(number, (1 << 63) - 1 - number)
        sent.append(wire.write_sent(SentSegment(key, clock, tables)))
    bundle = unpacked(packed(placed(sent)))
    assert bundle.positions == [3 * number + 1 for number in range(len(sent))]
    assert bundle.received_ns == [RECEIVED + number * number for number in range(len(sent))]
    for number, data in enumerate(sent):
        assert_same(bundle.segment(number), wire.decode(data))
        reread = wire.read_sent(wire.write_sent(bundle.placed(number).sent))
        original_sent = wire.read_sent(data)
        assert reread[:2] == original_sent[:2] and len(reread.tables) == len(original_sent.tables)
        for (number_1, rows_1), (number_2, rows_2) in zip(
            reread.tables, original_sent.tables, strict=True
        ):
            assert number_1 == number_2 and rows_1.dtype == rows_2.dtype
            assert rows_1.tobytes() == rows_2.tobytes(), "fields of later releases, too"


def test_a_run_takes_half_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [wire.encode(item) for item in run_segments(300)]
    assert len(packed(placed(sent))) < 0.5 * sum(map(len, sent))


def test_every_flipped_byte_and_every_cut_is_noticed() -> None:
    data = packed(placed([wire.encode(item) for item in run_segments(15)]))
    for offset in range(0, len(data), 7):
        damaged = data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]
        if offset not in (6, 7):  # these two are always zero, and mean nothing
            with pytest.raises(SegmentError):
                check(damaged)
        with pytest.raises(SegmentError):
            unpacked(data[:offset])


def test_a_later_format_is_named() -> None:
    data = bytearray(packed(placed([wire.encode(item) for item in run_segments(5)])))
    data[4] = 9
    with pytest.raises(SegmentError, match="bundle format 9; this stepwatch reads 1"):
        unpacked(bytes(data))
