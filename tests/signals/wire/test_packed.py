"""Tables of many segments, unpacked together, equal those unpacked one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import JoinedTables, Rows, Segment, SegmentKey
from stepwatch.signals.wire.packed import PackedTables

KINDS = (Kind.STEP, Kind.COLLECTIVE, Kind.HOST)


def rows_of(kind: Kind, count: int, random: np.random.Generator) -> Rows:
    rows: Rows = np.frombuffer(random.bytes(count * DTYPES[kind].itemsize), DTYPES[kind])
    return rows


def round_trip(tables: dict[Kind, Rows]) -> Segment:
    key = SegmentKey("job", 0, "node", 1, 1)
    return wire.decode(wire.encode(Segment(key, ClockPair(1, 2), tables)))


def equal_bytes(actual: Rows, expected: list[Rows]) -> bool:
    """Compare bit by bit, because the random numbers hold NaN."""
    return actual.tobytes() == b"".join(rows.tobytes() for rows in expected)


@pytest.mark.parametrize("seed", range(12))
def test_joined_tables_are_those_of_each_segment_in_turn(seed: int) -> None:
    random = np.random.default_rng(seed)
    segments = []
    for _ in range(int(random.integers(1, 9))):
        tables = {kind: rows_of(kind, int(random.integers(0, 4)), random) for kind in KINDS}
        tables = {kind: rows for kind, rows in tables.items() if len(rows)}
        plain = Segment(SegmentKey("job", 0, "node", 1, 1), ClockPair(1, 2), tables)
        segments.append(plain if random.random() < 0.3 else round_trip(tables))
    joined = JoinedTables([segment.tables for segment in segments])
    for kind in KINDS:
        expected = [segment.tables.get(kind, np.zeros(0, DTYPES[kind])) for segment in segments]
        rows, counts = joined.rows(kind)
        assert equal_bytes(rows, expected)
        assert counts.tolist() == [len(table) for table in expected]
    for first in range(len(segments)):
        kinds = frozenset(kind for segment in segments[first:] for kind in segment.tables)
        assert joined.kinds(first, len(segments)) == kinds


def test_tables_are_counted_without_being_unpacked() -> None:
    tables = {kind: np.zeros(3, DTYPES[kind]) for kind in KINDS}
    segment = round_trip(tables)
    assert segment.row_count == 9
    assert segment.nbytes >= sum(rows.nbytes for rows in tables.values())
    assert list(segment.tables) == list(KINDS) and Kind.GAP not in segment.tables


def test_a_table_that_was_read_once_is_kept() -> None:
    segment = round_trip({Kind.STEP: np.zeros(3, DTYPES[Kind.STEP])})
    segment.tables[Kind.STEP]["step"] = 7
    assert segment.tables[Kind.STEP]["step"].tolist() == [7, 7, 7]


@pytest.mark.parametrize("seed", range(12))
def test_small_values_of_a_field_are_those_of_its_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = np.zeros(int(random.integers(1, 9)), DTYPES[Kind.RANK_STATE])
    rows["process_state"] = random.integers(0, (8, 256, 400)[seed % 3], len(rows))
    rows["phase"] = rows["device_state"] = 1000  # its neighbours
    tables = round_trip({Kind.RANK_STATE: rows}).tables
    assert isinstance(tables, PackedTables)
    values = frozenset(rows["process_state"].tolist())
    small = tables.small_values(Kind.RANK_STATE, "process_state")
    assert small == values or (small is None and max(values) > 255)
    assert tables.small_values(Kind.STEP, "step") == frozenset()
