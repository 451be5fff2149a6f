"""Downsampling drops what may be dropped and leaves a gap where it came from a ring."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.agent.spool.downsample import downsample
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import UnsupportedFormatError
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows, Segment, SegmentKey, frame

KEY = SegmentKey("job", 0, "n1", 7, 1)


def rows(kind: Kind, *numbers: tuple[int, int]) -> Rows:
    """One row for each (rank, seq)."""
    ranks, seqs = zip(*numbers, strict=True)
    return make_rows(kind, len(numbers), rank=ranks, seq=seqs)


def segment_bytes(**tables: Rows) -> bytes:
    kinds = {Kind[name]: table for name, table in tables.items()}
    return wire.encode(Segment(KEY, ClockPair(1, 1), kinds))


def test_steps_become_one_gap_a_rank_and_facts_stay() -> None:
    data = segment_bytes(
        STEP=rows(Kind.STEP, (0, 4), (1, 9), (0, 5), (0, 6)),
        HOST=rows(Kind.HOST, (-1, 0)),
        LIFECYCLE=rows(Kind.LIFECYCLE, (0, 3)),
        GAP=rows(Kind.GAP, (2, 1)),
    )
    tables = wire.decode(downsample(data, {Kind.HOST})).tables
    assert set(tables) == {Kind.LIFECYCLE, Kind.GAP}
    gaps = tables[Kind.GAP][["rank", "first_seq", "last_seq"]].tolist()
    assert sorted(gaps) == [(0, 4, 6), (1, 9, 9), (2, 0, 0)]


def test_metrics_of_steps_go_and_those_of_evaluations_stay() -> None:
    metrics = rows(Kind.METRIC, (0, 4), (0, 5), (1, 2))
    metrics["evaluated"] = 0, 1, 0
    names = rows(Kind.METRIC_NAME, (0, 3))
    tables = wire.decode(downsample(segment_bytes(METRIC=metrics, METRIC_NAME=names), ())).tables
    assert set(tables) == {Kind.METRIC, Kind.METRIC_NAME, Kind.GAP}
    assert tables[Kind.METRIC][["rank", "seq"]].tolist() == [(0, 5)]
    gaps = tables[Kind.GAP][["rank", "first_seq", "last_seq"]].tolist()
    assert sorted(gaps) == [(0, 4, 4), (1, 2, 2)]


def test_a_kind_that_no_one_calls_expendable_stays() -> None:
    data = segment_bytes(DEVICE=rows(Kind.DEVICE, (0, 0)), NIC=rows(Kind.NIC, (-1, 0)))
    assert set(wire.decode(downsample(data, {Kind.NIC})).tables) == {Kind.DEVICE}


def test_a_kind_of_a_later_version_stays() -> None:
    segment = wire.decode(segment_bytes(STEP=rows(Kind.STEP, (0, 1))))
    strange = np.zeros(1, dtype=[("rank", "<i4"), ("speed", "<f8")])
    data = wire.encode(segment._replace(unknown={99: strange}))
    downsampled = wire.decode(downsample(data, ()))
    assert np.array_equal(downsampled.unknown[99], strange) and set(downsampled.tables) == {
        Kind.GAP
    }


def test_a_segment_of_a_later_format_is_left_alone() -> None:
    number, header, payload, size = frame.open_frame(segment_bytes(STEP=rows(Kind.STEP, (0, 1))))
    with pytest.raises(UnsupportedFormatError):
        downsample(frame.close_frame(number + 1, header, payload, size), ())
