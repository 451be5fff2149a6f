"""Evidence takes each step once, when it is settled: of whom, on which clock, from when on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from stepwatch.collector.state.evidence import buckets
from stepwatch.collector.state.evidence.buckets import BUCKETS
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.steps import rank_evidence
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.signals.records import Kind, LifecycleEvent, StepFlag
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    device_step_rows,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
    timing_rows,
)

WORLD, STEPS = 4, 40
NOW = Received(0.0, 0.0)
SLOW = {(3, "forward"): 0.2}
Tables = Mapping[Kind, Rows]


def evidence_of(*tables: Tables, states: int = WORLD) -> RankEvidence:
    """After a start, states of so many ranks, and these tables."""
    start = {
        Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD),
        Kind.RANK_STATE: state_rows(range(states), WORLD, 0.1),
    }
    start[Kind.RANK_STATE]["stage"] = 0
    job = LiveJob(JOB)
    for number, rows in enumerate((start, *tables)):
        job.apply(segment(number + 1, rows), NOW)
    return job.current.tracker(RankEvidence)


def hosts(steps: range = range(STEPS), ranks: range = range(WORLD)) -> dict[Kind, Rows]:
    return {Kind.STEP: step_rows(steps, ranks, excess={**SLOW} if 3 in ranks else None)}


def steps_taken(evidence: RankEvidence) -> int:
    return int(evidence.buckets.course().steps.sum())


def test_a_step_counts_once_it_is_settled_whoever_looks() -> None:
    evidence = evidence_of(hosts(range(30)), hosts(range(30, STEPS), range(3)))
    assert (evidence.clock, steps_taken(evidence)) == ("host", 30), "ten wait for rank 3"
    assert evidence.log_capital.max(axis=0).argmax() == 3


def test_a_step_that_is_given_up_is_taken_without_the_rank_that_is_missing() -> None:
    evidence = evidence_of(hosts(range(20)), hosts(range(20, 20 + 64 + 10), range(3)))
    assert steps_taken(evidence) == 30
    work = evidence.buckets.course().work.sum(axis=(0, 1))
    work_before = evidence_of(hosts(range(20))).buckets.course().work.sum(axis=(0, 1))
    as_its_peers = pytest.approx(work[0] - work_before[0], rel=1e-4)
    assert work[3] - work_before[3] == as_its_peers


def test_steps_in_which_a_rank_is_missing_tell_nothing_of_it() -> None:
    evidence = evidence_of(hosts(range(20)), hosts(range(20, 20 + 64 + 10), range(3)))
    seen_steps = evidence.buckets.course().compared.sum(axis=0)
    assert seen_steps.tolist() == evidence.long.steps.tolist() == [30, 30, 30, 20]


def test_where_a_rank_is_the_only_one_of_its_stage_it_is_compared_with_nobody() -> None:
    evidence = evidence_of(hosts(range(20)), hosts(range(20, 20 + 64 + 10), range(1)))
    assert steps_taken(evidence) == 30
    seen_steps = evidence.buckets.course().compared.sum(axis=0)
    assert seen_steps.tolist() == evidence.long.steps.tolist() == [20] * 4


def test_each_bucket_counts_its_own_steps() -> None:
    """Steps of 0.4 s: 25 make a bucket of ten seconds, and more come than there is room for."""
    parts = [hosts(range(first, first + 100)) for first in range(0, 2000, 100)]
    course = evidence_of(*parts).buckets.course()
    assert len(course.steps) == BUCKETS
    assert (course.compared == course.steps[:, None]).all()


def test_a_bucket_holds_no_more_steps_than_it_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_MOST_STEPS", 7)
    course = evidence_of(hosts(range(30))).buckets.course()
    assert course.steps.tolist() == [7, 7, 7, 7, 2]


@pytest.mark.parametrize(("seconds", "single_rank"), [(16.8, True), (1.5, True), (16.8, False)])
def test_a_rank_that_pauses_alone_holds_up_the_others_however_long(
    seconds: float, single_rank: bool
) -> None:
    """Where most ranks are as long outside all phases, the job evaluates without a mark."""
    rows = step_rows(range(STEPS), range(WORLD))
    pauses = rows["step"] % 4 == 3
    rows["duration_ns"][pauses] += int(seconds * 1e9)
    outside = rows["rank"] == 0 if single_rank else rows["rank"] != WORLD - 1
    column = np.where(outside, "other_ns", "collective_ns")
    for name in ("other_ns", "collective_ns"):
        rows[name][pauses & (column == name)] += int(seconds * 1e9)
    evidence = evidence_of({Kind.STEP: rows})
    assert steps_taken(evidence) == STEPS
    assert bool(evidence.log_capital[:, 0].max() > 5.0) is single_rank
    assert bool(evidence.buckets.course().cost[:, 0].sum() > 1.0) is single_rank


def test_what_is_not_known_of_some_rank_is_compared_with_nobody() -> None:
    assert steps_taken(evidence_of(hosts(), states=3)) == 0


def test_steps_after_a_start_are_not_taken() -> None:
    rows = hosts()[Kind.STEP]
    rows["flags"][(rows["step"] == 5) & (rows["rank"] == 1)] = StepFlag.FIRST
    assert steps_taken(evidence_of({Kind.STEP: rows})) == STEPS - WARMUP_STEPS


def test_on_devices_only_steps_that_all_timed_whole_are_taken() -> None:
    timed = {Kind.LIFECYCLE: timing_rows(range(WORLD))}
    rows = device_step_rows(range(30), range(WORLD), excess=SLOW)
    rows["other_seconds"][(rows["step"] == 7) & (rows["rank"] == 0)] = np.nan
    evidence = evidence_of(timed, hosts(), {Kind.DEVICE_STEP: rows})
    assert (evidence.clock, steps_taken(evidence)) == ("device", 29)


def test_hosts_of_ranks_on_devices_are_not_compared_with_others() -> None:
    mixed = np.concatenate([timing_rows([0, 1]), timing_rows([2, 3], b"no timing events")])
    assert steps_taken(evidence_of({Kind.LIFECYCLE: mixed}, hosts())) == 0


@pytest.mark.parametrize("excess", [0.004, 0.02, 0.2])
def test_bets_without_a_look_for_suspects_end_where_those_with_one_do(
    excess: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = step_rows(range(STEPS), range(WORLD), excess={(3, "forward"): excess})
    evidence = evidence_of({Kind.STEP: rows[: len(rows) // 2]}, {Kind.STEP: rows[len(rows) // 2 :]})
    monkeypatch.setattr(rank_evidence, "_most", lambda *_: np.inf)
    looked = evidence_of({Kind.STEP: rows[: len(rows) // 2]}, {Kind.STEP: rows[len(rows) // 2 :]})
    assert evidence.log_capital.tobytes() == looked.log_capital.tobytes()
    courses = evidence.buckets.course(), looked.buckets.course()
    assert courses[0].cost.tobytes() == courses[1].cost.tobytes()
