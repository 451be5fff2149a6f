"""What is over is not reported: a job whose last rank tidies up, numbers that the run got over."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from stepwatch.collector.detect import hang, non_finite, pause, rank_failed, telemetry
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.non_finite import LIMITS
from stepwatch.collector.runtime.evaluation.job_state import has_ended, job_state
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.diagnoses import Diagnoses
from stepwatch.collector.state.trackers.memory_history import MemoryHistory
from stepwatch.collector.state.trackers.numerics import MAX_SCALED_OF_STEP, Numerics
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import (
    LOSS_SCALED,
    SCALER_STEPS,
    Kind,
    LifecycleEvent,
    NumericsSource,
    ProcessState,
    make_rows,
)
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    lifecycle_rows,
    read_before,
    run_segments,
    segment,
    state_rows,
    step_rows,
)

STEPS = 40


def standing(moved_ago: float, *, waits: bool = False, finished: int = 3) -> DetectionContext:
    """Four ranks of which the first ones have finished; the rest last moved so long ago.

    Rank 3 waits in a collective or not; it uses no CPU, nor do the others.
    """
    job = LiveJob(JOB)
    for item in run_segments(STEPS):
        job.apply(item, Received(0.0, 100.0))
    states = state_rows(range(4), 4, 1000.0, STEPS, moved_ago)
    states["in_collective"][3:] = waits
    reported = {Kind.RANK_STATE: read_before(states)}
    if finished:
        reported[Kind.LIFECYCLE] = lifecycle_rows(
            LifecycleEvent.FINISH, range(finished), time_s=999.0
        )
    job.apply(segment(9000, reported), Received(0.0, 100.0))
    return DetectionContext(job, 100.0)


def test_the_last_rank_may_tidy_up_but_not_wait_for_those_that_finished() -> None:
    assert hang.find(standing(60.0)) == []
    assert len(hang.find(standing(60.0, waits=True))) == 1
    assert len(hang.find(standing(80.0, waits=True, finished=0))) == 1
    assert len(hang.find(standing(hang.LIMITS.pause_seconds + 1))) == 1


def test_a_rank_that_does_not_end_after_training_is_said_with_what_it_costs() -> None:
    assert pause.find(standing(hang.LIMITS.legal_seconds - 1)) == []
    (finding,) = pause.find(standing(hang.LIMITS.legal_seconds + 1))
    assert (finding.rank, finding.cause) == (3, "busy")
    assert "training is over, and rank 3 has not ended for 76.00 s" in finding.summary
    assert "the devices of 4 ranks idle" in finding.summary


def bad_rows(step: int) -> Rows:
    return make_rows(
        Kind.NUMERICS,
        4,
        rank=range(4),
        step=step,
        nonfinite=1,
        source=NumericsSource.COLLECTIVE_INPUT,
    )


def overflow(steps: int, poisoned_from: int | None = None) -> DetectionContext:
    """A gradient that is not finite in step 5, and what the losses were after it."""
    rows = step_rows(range(steps), range(4))
    if poisoned_from is not None:
        rows["loss"][rows["step"] >= poisoned_from] = np.nan
    job = LiveJob(JOB)
    reported = {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.STEP: rows}
    job.apply(segment(1, {**reported, Kind.NUMERICS: bad_rows(5)}), Received(0.0, 0.0))
    return DetectionContext(job, 0.0)


def test_an_overflow_is_told_until_enough_finite_losses_followed() -> None:
    assert len(non_finite.find(overflow(6 + LIMITS.recovered_steps - 1))) == 1
    assert non_finite.find(overflow(6 + LIMITS.recovered_steps)) == []
    assert len(non_finite.find(overflow(100, poisoned_from=6))) == 1


def test_a_second_overflow_is_told_after_the_first_was_got_over() -> None:
    context = overflow(60)
    context.attempt.tracker(Numerics).add(bad_rows(58), 4)
    (finding,) = non_finite.find(context)
    assert finding.began_step == 58


def test_overflows_of_a_scaler_are_told_once_they_go_on_and_kept_within_bounds() -> None:
    context = overflow(101)
    numerics = context.attempt.tracker(Numerics)
    for step in range(100, 100 + SCALER_STEPS + 1):
        assert non_finite.find(context) == []
        rows = np.tile(bad_rows(step), 100)
        rows["source"] |= LOSS_SCALED
        numerics.add(rows, 4)
    (finding,) = non_finite.find(context)
    assert finding.began_step == 100
    assert len(numerics.scaled) == (SCALER_STEPS + 1) * MAX_SCALED_OF_STEP
    assert numerics.cells >= len(numerics.scaled)


def test_memory_readings_count_and_are_given_back() -> None:
    attempt = Attempt(0)
    attempt.apply(segment(1, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0)}), Received(0.0, 0.0))
    memory = attempt.tracker(MemoryHistory)
    assert attempt.cells >= attempt.steps.ring.cells + memory.cells > attempt.steps.ring.cells
    attempt.release()
    assert attempt.cells == MemoryHistory().cells == 0


def test_each_attempt_loses_what_the_earliest_later_one_redid() -> None:
    job = LiveJob(JOB)
    for number, first in enumerate((0, 30, 20, 50)):
        reported = {
            Kind.RANK_STATE: state_rows([0], 1, 1.0),
            Kind.STEP: step_rows(range(first, first + 9), [0]),
        }
        job.apply(segment(number + 1, reported, attempt=number), Received(0.0, 0.0))
    assert [(attempt.number, lost) for attempt, lost in job.ordered()] == [
        (0, 20),
        (1, 20),
        (2, 50),
        (3, None),
    ]


def failed_after(notice_at: float) -> list[tuple[str, int]]:
    """A job of half a second a step that receives a preemption, and raises at 1,000 s."""
    job = LiveJob(JOB)
    steps = step_rows(range(2000), range(2), 0.5)
    ended = lifecycle_rows(LifecycleEvent.FAILURE, range(2), time_s=1000.0)
    ended["text"] = b"ValueError: no"
    stop = lifecycle_rows(LifecycleEvent.PREEMPTION, [0], time_s=notice_at)
    reported = {
        Kind.RANK_STATE: state_rows(range(2), 2, 1000.0),
        Kind.STEP: steps,
        Kind.LIFECYCLE: np.concatenate([stop, ended]),
    }
    job.apply(segment(1, reported), Received(0.0, 0.0))
    return [
        (item.kind.value, item.rank)
        for item in rank_failed.find(DetectionContext(job, 10.0, wall_s=0.0))
    ]


def test_a_preemption_that_was_called_off_silences_nothing() -> None:
    limit = rank_failed.LIMITS.preempted_seconds
    assert failed_after(999.0) == failed_after(1001.0 - limit) == []
    assert failed_after(999.0 - limit) == [("rank-failed", 0)]


@pytest.mark.parametrize(("steps", "elapsed_s", "expected"), [(0, 300, 0), (2, 25, 0), (2, 35, 1)])
def test_a_stall_in_the_first_steps_is_found_by_the_longest_of_them(
    steps: int, elapsed_s: float, expected: int
) -> None:
    job = LiveJob(JOB)
    states = state_rows(range(4), 4, 1000.0, steps, elapsed_s)
    states["in_collective"][1:] = 1
    reported = {
        Kind.RANK_STATE: read_before(states),
        Kind.STEP: step_rows(range(steps), range(4)),
    }
    job.apply(segment(1, reported), Received(0.0, 100.0))
    assert len(pause.find(DetectionContext(job, 100.0))) == expected


def test_of_many_answers_of_a_rank_the_last_one_counts() -> None:
    diagnosis_rows = make_rows(Kind.DIAGNOSIS, 60, rank=np.tile([2, 0, 7], 20), time_ns=range(60))
    flights = make_rows(Kind.FLIGHT, 600, rank=np.tile([0, 1, 2], 200), collective_seq=range(600))
    diagnoses = Diagnoses()
    diagnoses.add(diagnosis_rows, flights, 4)
    assert {rank: item.at_ns for rank, item in diagnoses.by_rank.items()} == {0: 58, 2: 57}
    for rank, item in diagnoses.by_rank.items():
        assert [record.number for record in item.flight] == list(range(600))[rank::3]
    diagnoses.add(diagnosis_rows[:1], flights[:0], 4)
    assert diagnoses.by_rank[2].flight == ()


@pytest.mark.parametrize(("flush_seconds", "stale"), [(1.0, True), (60.0, False)])
def test_a_node_is_stale_after_several_flushes_of_its_own_agent(
    flush_seconds: float, stale: bool
) -> None:
    job = LiveJob(JOB)
    agent_row = make_rows(Kind.AGENT, 1, flush_seconds=flush_seconds)
    for number, item in enumerate(run_segments(STEPS)):
        tables = {**item.tables, Kind.AGENT: agent_row}
        job.apply(segment(number, tables), Received(0.0, 100.0))
    assert bool(telemetry.find(DetectionContext(job, 130.0))) is stale


def test_groups_that_a_collective_line_cannot_tell_apart_are_not_named() -> None:
    attempt = standing(60.0).attempt
    low, other_group = 7, 8
    groups = {low: "0-1", low + (1 << 16): "2-3", other_group: "0,2"}
    attempt.collective_records.groups.update(
        {number: Group(2, ranks) for number, ranks in groups.items()}
    )
    assert hang.rank_diagnostics(attempt).groups == {other_group: "0,2"}


def test_a_job_that_ctrl_c_ended_is_interrupted_and_nothing_failed() -> None:
    job = LiveJob(JOB)
    states = state_rows(range(3), 3, 1000.0)
    states["process_state"], states["exit_code"] = ProcessState.GONE, -1
    states["gone_ns"] = round(1001.0 * NANOSECONDS)
    states["exit_code"][2] = 128 + signal.SIGTERM  # the launcher ended it before it could report
    reported = {
        Kind.RANK_STATE: states,
        Kind.STEP: step_rows(range(20), range(3)),
        Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.INTERRUPT, range(2), time_s=1000.0),
    }
    job.apply(segment(1, reported), Received(0.0, 0.0))
    attempt = job.current
    assert (attempt.outcome.interrupted, attempt.outcome.failed, attempt.outcome.finished) == (
        True,
        False,
        False,
    )
    assert has_ended(attempt, 0.0) and job_state(attempt, [], 0.0) == "interrupted"
    assert rank_failed.find(DetectionContext(job, 100.0, wall_s=0.0)) == []


@pytest.mark.parametrize(
    ("code", "gone_s", "state"),
    [
        (128 + signal.SIGKILL, 999.0, "failed"),
        (1, 999.0, "failed"),
        (-1, 960.0, "failed"),
        (-1, 999.0, "interrupted"),  # its code is unknown: perhaps its launcher ended it
        (128 + signal.SIGKILL, 1030.0, "interrupted"),
        (128 + signal.SIGTERM, 999.0, "interrupted"),
    ],
)
def test_a_rank_that_died_before_ctrl_c_has_failed(code: int, gone_s: float, state: str) -> None:
    job = LiveJob(JOB)
    states = state_rows([2], 3, 1040.0)
    states["process_state"], states["exit_code"] = ProcessState.GONE, code
    states["gone_ns"] = round(gone_s * NANOSECONDS)
    interrupts = lifecycle_rows(LifecycleEvent.INTERRUPT, range(2), time_s=1000.0)
    job.apply(segment(1, {Kind.RANK_STATE: states}), Received(0.0, 0.0))
    job.apply(segment(2, {Kind.LIFECYCLE: interrupts}), Received(0.0, 0.0))
    attempt = job.current
    assert (attempt.outcome.failed, attempt.outcome.interrupted) == (
        state == "failed",
        state == "interrupted",
    )
    assert job_state(attempt, [], 0.0) == state


def test_a_rank_that_raised_before_ctrl_c_has_failed() -> None:
    attempt = Attempt(0)
    for sequence, event in enumerate([LifecycleEvent.FAILURE, LifecycleEvent.INTERRUPT]):
        reported = {Kind.LIFECYCLE: lifecycle_rows(event, [sequence], time_s=1000.0 + sequence)}
        attempt.apply(segment(sequence, reported), Received(0.0, 0.0))
    assert (attempt.outcome.failed, attempt.outcome.interrupted) == (True, False)


@pytest.mark.parametrize(
    ("codes", "state"),
    [
        ([128 + signal.SIGTERM] * 3, "interrupted"),
        ([0, 0, 128 + signal.SIGTERM], "interrupted"),  # two saved first, and ended by themselves
        ([128 + signal.SIGTERM, 128 + signal.SIGTERM, 128 + signal.SIGKILL], "failed"),
        ([128 + signal.SIGTERM, 128 + signal.SIGTERM, 1], "failed"),
        ([0, 0, 0], "failed"),
    ],
)
def test_a_job_that_sigterm_ended_was_stopped_on_request(codes: list[int], state: str) -> None:
    job = LiveJob(JOB)
    states = state_rows(range(3), 3, 1000.0)
    states["process_state"], states["exit_code"] = ProcessState.GONE, codes
    states["gone_ns"] = round(1001.0 * NANOSECONDS)
    job.apply(segment(1, {Kind.RANK_STATE: states}), Received(0.0, 0.0))
    assert job_state(job.current, [], 0.0) == state
