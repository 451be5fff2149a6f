"""A sampled pipeline step laid out: what was busy, what was idle, and what is not known."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.state.trackers.communication import microbatch_timeline as module
from stepwatch.collector.state.trackers.communication import microbatches
from stepwatch.collector.state.trackers.communication.microbatch_timeline import (
    MicrobatchTimeline,
    StageTimes,
    microbatch_timeline,
)
from stepwatch.collector.state.trackers.communication.microbatches import (
    CHUNK,
    STEPS_AHEAD,
    Microbatches,
)
from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Phase, make_rows

STEP = 8
MS = NANOSECONDS // 1000


class Made(NamedTuple):
    """One chunk as a rank reports it: idle before it, then its self time, part of it blocked."""

    stage: int
    microbatch: int
    phase: Phase
    idle: int
    busy: int
    blocked: int


def rank_rows(rank: int, chunks: list[Made], delay_ns: int = 0, began: int = 10**12) -> Rows:
    """CHUNK rows of one call of the schedule, which goes on for `after` ns after the last chunk."""
    rows = np.zeros(len(chunks) + 1, dtype=CHUNK)
    rows["rank"], rows["step"], rows["index"] = rank, STEP, np.arange(len(rows))
    position_ns = began
    for row, chunk in zip(rows, chunks, strict=False):
        position_ns += chunk.idle
        row["stage"], row["microbatch"], row["phase"] = chunk.stage, chunk.microbatch, chunk.phase
        row["began_ns"], row["blocked_ns"] = position_ns, chunk.blocked
        position_ns += chunk.busy + chunk.blocked
        row["ended_ns"] = position_ns
    rows[-1]["began_ns"], rows[-1]["ended_ns"] = began, position_ns + delay_ns
    return rows


def two_stages(microbatches: int = 3) -> Rows:
    """1F1B of two ranks without communication time; forward 1 ms, backward 2 ms."""
    forward, backward = Phase.FORWARD, Phase.BACKWARD
    first, last = [], []
    for number in range(microbatches):
        last.append(Made(1, number, forward, MS if number == 0 else 0, MS, 0))
        last.append(Made(1, number, backward, 0, 2 * MS, 0))
    first += [Made(0, 0, forward, 0, MS, 0), Made(0, 1, forward, 0, MS, 0)]
    for number in range(microbatches):
        first.append(Made(0, number, backward, 2 * MS if number == 0 else 0, 2 * MS, 0))
        if number + 2 < microbatches:
            first.append(Made(0, number + 2, forward, 0, MS, 0))
    return np.concatenate([rank_rows(0, first), rank_rows(1, last, delay_ns=2 * MS, began=7)])


def timeline_of(rows: Rows) -> MicrobatchTimeline:
    timeline = microbatch_timeline(rows)
    assert timeline is not None
    return timeline


def test_busy_and_idle_of_each_microbatch() -> None:
    timeline = timeline_of(two_stages())
    assert (timeline.step, timeline.ranks, timeline.left_out) == (STEP, 2, 0)
    first, last = timeline.stages
    assert (first.busy_seconds, first.idle_seconds) == pytest.approx((0.009, 0.002))
    assert (last.busy_seconds, last.idle_seconds) == pytest.approx((0.009, 0.003))
    assert last.bubble_ratio == pytest.approx(3 / 12)
    waited = [cell.backward_idle_before_seconds for cell in first.microbatches]
    assert waited == pytest.approx([0.002, 0.0, 0.0])
    assert [cell.forward_idle_before_seconds for cell in last.microbatches] == pytest.approx(
        [0.001, 0.0, 0.0]
    )
    forward, backward = last.chunks[:2]
    assert (forward.work, forward.microbatch, backward.work) == ("forward", 0, "backward")
    assert (forward.began_seconds, backward.began_seconds) == pytest.approx((0.001, 0.002))


def test_a_collective_inside_a_chunk_is_neither_busy_nor_idle() -> None:
    chunks = [Made(0, 0, Phase.FORWARD, 0, 3 * MS, MS), Made(0, 0, Phase.BACKWARD, MS, 5 * MS, 0)]
    (stage,) = timeline_of(rank_rows(0, chunks)).stages
    reported = (stage.busy_seconds, stage.blocked_seconds, stage.idle_seconds)
    assert reported == pytest.approx((0.008, 0.001, 0.001))
    assert stage.microbatches[0].forward_busy_seconds == pytest.approx(0.003)


def test_both_parts_of_a_split_backward_count_and_keep_their_names() -> None:
    chunks = [Made(0, 5, Phase.BACKWARD, 0, MS, 0), Made(0, 5, Phase.BACKWARD, 0, 2 * MS, 0)]
    rows = rank_rows(0, chunks)
    rows["weight_only"][1] = 1
    (stage,) = timeline_of(rows).stages
    (cell,) = stage.microbatches
    assert cell.backward_busy_seconds == pytest.approx(0.003)
    assert np.isnan(cell.forward_busy_seconds), "no forward was reported: not zero"
    assert [chunk.work for chunk in stage.chunks] == ["backward", "weight gradient"]


def test_between_two_calls_of_a_step_no_stage_is_idle() -> None:
    once = [Made(0, 0, Phase.FORWARD, MS, MS, 0)]
    later = rank_rows(0, once, began=2 * 10**12)
    later["index"] += 2
    (stage,) = timeline_of(np.concatenate([rank_rows(0, once), later])).stages
    assert (stage.busy_seconds, stage.idle_seconds) == pytest.approx((0.002, 0.002))


def _damaged(rows: Rows, damage: str) -> Rows:
    last = len(rows) - 1
    if damage == "a row is missing":
        return np.delete(rows, 2)
    if damage == "the end is missing":
        return rows[:last]
    if damage == "nothing but an end":
        rows = rows[last:]
        rows["index"] = 0
        return rows
    if damage == "two rows contradict":
        other_row = rows[1:2].copy()
        other_row["blocked_ns"] = 1
        return np.concatenate([rows, other_row])
    name, row_index, value = {
        "ends before it begins": ("ended_ns", 1, 5),
        "overlaps": ("began_ns", 2, 10**12 + 1),
        "blocked longer than it ran": ("blocked_ns", 1, 10**10),
        "negative": ("began_ns", 0, -(2**63)),
        "far future": ("ended_ns", last, 2**63 - 1),
        "no phase of a stage": ("phase", 1, Phase.OPTIMIZER),
        "no such stage": ("stage", 1, 9999),
    }[damage]
    rows[name][row_index] = value
    return rows


@pytest.mark.parametrize(
    "damage",
    [
        "a row is missing",
        "the end is missing",
        "nothing but an end",
        "two rows contradict",
        "ends before it begins",
        "overlaps",
        "blocked longer than it ran",
        "negative",
        "far future",
        "no phase of a stage",
        "no such stage",
    ],
)
def test_a_rank_that_cannot_be_true_is_unknown_and_the_others_stay(damage: str) -> None:
    rows = two_stages()
    first, other_rank = rows[rows["rank"] == 0], rows[rows["rank"] == 1]
    first = _damaged(first, damage)
    assert microbatch_timeline(first) is None
    assert microbatch_timeline(np.concatenate([first, other_rank])) == microbatch_timeline(
        other_rank
    )


CHUNKS = st.lists(
    st.builds(
        Made,
        stage=st.integers(0, 3),
        microbatch=st.integers(0, 5),
        phase=st.sampled_from([Phase.FORWARD, Phase.BACKWARD]),
        idle=st.integers(0, 10**10),
        busy=st.integers(0, 10**10),
        blocked=st.integers(0, 10**10),
    ),
    min_size=1,
    max_size=12,
)
PIPELINES = st.lists(st.tuples(CHUNKS, st.integers(0, 10**10)), min_size=1, max_size=4)


@given(PIPELINES, st.randoms(use_true_random=False), st.integers(0, 20))
@settings(max_examples=120)
def test_busy_blocked_and_idle_make_the_span_in_any_order_of_rows(
    ranks: list[tuple[list[Made], int]], shuffle: Random, repeated: int
) -> None:
    rows = np.concatenate(
        [rank_rows(rank, *reported, began=10**9 * rank) for rank, reported in enumerate(ranks)]
    )
    timeline = timeline_of(rows)
    assert timeline.ranks == len(ranks)
    calls = rows[rows["phase"] == Phase.OTHER]
    spans = (calls["ended_ns"] - calls["began_ns"]).sum() / NANOSECONDS
    assert sum(map(_total, timeline.stages)) == pytest.approx(spans)
    for stage in timeline.stages:
        cells = [seconds for cell in stage.microbatches for seconds in cell[1::2]]
        assert np.nansum(cells) == pytest.approx(stage.busy_seconds)
        assert stage.bubble_ratio is None or 0.0 <= stage.bubble_ratio <= 1.0
    order = list(range(len(rows))) + [number % len(rows) for number in range(repeated)]
    shuffle.shuffle(order)
    assert repr(microbatch_timeline(rows[order])) == repr(timeline), (
        "NaN where a stage had no such chunk"
    )


def _total(stage: StageTimes) -> float:
    return stage.ranks * (stage.busy_seconds + stage.blocked_seconds + stage.idle_seconds)


@given(st.binary(max_size=40 * CHUNK.itemsize), st.booleans())
@settings(max_examples=150)
def test_garbage_beside_a_good_rank_does_no_harm(raw: bytes, few: bool) -> None:
    usable = len(raw) // CHUNK.itemsize * CHUNK.itemsize
    garbage = np.frombuffer(raw[:usable], dtype=CHUNK).copy()
    garbage["rank"] = 1 + garbage["rank"] % 2
    if few:
        garbage["index"], garbage["phase"] = np.arange(len(garbage)) % 3, garbage["phase"] % 4
    good = rank_rows(0, [Made(0, 0, Phase.FORWARD, MS, MS, 0)])
    timeline = timeline_of(np.concatenate([garbage, good]))
    assert timeline.stages[0].rank == 0
    for stage in timeline.stages:
        assert stage.busy_seconds >= 0 and stage.idle_seconds >= 0


def test_no_rows_are_unknown() -> None:
    assert microbatch_timeline(np.zeros(0, dtype=CHUNK)) is None


def test_of_very_many_microbatches_the_first_of_each_stage_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 4)
    timeline = timeline_of(two_stages(6))
    assert [len(stage.microbatches) for stage in timeline.stages] == [2, 2]
    assert [len(stage.chunks) for stage in timeline.stages] == [6, 6]
    assert timeline.left_out == 8
    assert timeline.stages[0].busy_seconds == pytest.approx(0.018), "totals are of all"


def wire_rows(step: int, ranks: range) -> Rows:
    """MICROBATCH rows of a forward and the end on each rank."""
    rows = make_rows(Kind.MICROBATCH, 2 * len(ranks), rank=np.repeat(ranks, 2), step=step)
    rows["index"] = np.arange(len(rows)) % 2
    rows["phase"] = np.where(rows["index"] == 0, Phase.FORWARD, Phase.OTHER)
    rows["began_ns"], rows["time_ns"] = 10, 20
    return rows


def sampled_step(tracker: Microbatches) -> int | None:
    sample = tracker.sample()
    return None if sample is None else sample.step


def test_the_newest_sample_that_is_as_whole_is_shown() -> None:
    tracker = Microbatches()
    assert sampled_step(tracker) is None
    tracker.add(wire_rows(8, range(4)), 4, 8)
    tracker.add(wire_rows(64, range(2)), 4, 64)
    assert sampled_step(tracker) == 8, "half of the ranks have not reported the newer one"
    tracker.add(wire_rows(64, range(2, 4)), 4, 64)
    assert sampled_step(tracker) == 64
    tracker.add(wire_rows(7, range(4)), 4, 64)
    assert sampled_step(tracker) == 64


def test_a_sample_is_laid_out_once_until_more_of_it_arrives() -> None:
    tracker = Microbatches()
    tracker.add(wire_rows(8, range(2)), 4, 8)
    sample = tracker.sample()
    assert sample is not None and sample.microbatch_timeline is sample.microbatch_timeline
    assert sample.microbatch_timeline is not None and sample.microbatch_timeline.ranks == 2
    tracker.add(wire_rows(8, range(2, 4)), 4, 8)
    assert sample.microbatch_timeline.ranks == 4


def test_what_cannot_be_is_refused_and_never_kept() -> None:
    tracker = Microbatches()
    assert tracker.add(wire_rows(STEPS_AHEAD + 9, range(4)), 4, 8) == 8, "ahead of every step"
    assert tracker.add(wire_rows(8, range(4, 6)), 4, 8) == 4, "ranks that do not exist"
    late_rows = wire_rows(8, range(1))
    late_rows["time_ns"] = 2**64 - 1
    assert tracker.add(late_rows, 4, 8) == 2
    assert tracker.cells == 0


def test_a_sample_is_bounded_and_whole_ranks_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microbatches, "MAX_ROWS", 7)
    tracker = Microbatches()
    for _ in range(100):
        for rank in range(8):
            tracker.add(wire_rows(8, range(rank, rank + 1)), 8, 8)
    assert tracker.cells == 7
    sample = tracker.sample()
    assert sample is not None and timeline_of(sample.rows).ranks == 3
