"""How long a wait may take, marked or not, by those before and by what is at work."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect import hang, pause
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.hang import LIMITS, OtherRanks, RankSituation, Stall, stall_of
from stepwatch.collector.detect.hang.holding import Longest
from stepwatch.collector.detect.hang.situation import NO_DIAGNOSTICS, NO_OTHER_RANKS, Unseen
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.collector.state.trackers.steps.usual_pauses import UsualPauses
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Op, Phase, ProcessState, StepFlag
from tests.collector.made import (
    JOB,
    read_before,
    run_segments,
    segment,
    state_rows,
    step_rows,
)

WAITS = RankSituation(
    0, 50, Phase.BACKWARD, 0, False, True, Op.ALL_REDUCE, 0.0, 0.2, ProcessState.SLEEPING
)
EVALUATES = WAITS._replace(in_collective=False, phase=Phase.EVAL, work=Work.NONE)
SAVES = EVALUATES._replace(phase=Phase.CHECKPOINT)
SHORT: Longest = {Phase.EVAL: 6.0, Phase.CHECKPOINT: 6.0}


def hangs_after(
    *ranks: RankSituation, longest: Longest = SHORT, other_ranks: OtherRanks = NO_OTHER_RANKS
) -> float:
    """Seconds after which these ranks are a hang, with steps of half a second."""
    numbered = [
        item._replace(rank=rank, moved_age=LIMITS.pause_seconds) for rank, item in enumerate(ranks)
    ]
    stall = stall_of(numbered, 0.5, 0.5, LIMITS, NO_DIAGNOSTICS, other_ranks, longest)
    assert stall is not None
    assert not hang.detect(stall._replace(seconds=stall.hang_seconds - 1.0))
    assert hang.detect(stall)
    return stall.hang_seconds


def stalled(seconds: float, *ranks: RankSituation, longest: Longest = SHORT) -> Stall | None:
    """What comes of these ranks if they have made no progress for so long."""
    aged = [item._replace(rank=rank, moved_age=seconds) for rank, item in enumerate(ranks)]
    return stall_of(aged, 0.5, 0.5, LIMITS, NO_DIAGNOSTICS, NO_OTHER_RANKS, longest)


def test_without_a_sign_of_work_it_hangs_within_two_minutes_or_half_longer_than_any_before() -> (
    None
):
    assert hangs_after(WAITS, EVALUATES) == hangs_after(WAITS, SAVES) == LIMITS.marked_seconds
    in_it = WAITS._replace(phase=Phase.EVAL)
    assert hangs_after(in_it, in_it) == LIMITS.legal_seconds  # all inside, and it does not end
    blocked = SAVES._replace(process=ProcessState.UNINTERRUPTIBLE)
    assert hangs_after(WAITS, blocked) == LIMITS.marked_seconds  # storage that does not answer
    longer = {Phase.EVAL: 100.0, Phase.CHECKPOINT: 90.0}
    assert hangs_after(WAITS, EVALUATES, longest=longer) == 100.0 * LIMITS.pause_multiple
    assert hangs_after(WAITS, SAVES, longest=longer) == 90.0 * LIMITS.pause_multiple
    assert hangs_after(WAITS, EVALUATES, SAVES, longest=longer) == 100.0 * LIMITS.pause_multiple


def test_work_counts_until_it_ends() -> None:
    """It evaluated for 800 s, and has done nothing since: 900 s in all."""
    over = EVALUATES._replace(worked_age=LIMITS.marked_seconds - 5.0)
    numbered = [WAITS, over._replace(rank=1)]
    ranks = [item._replace(moved_age=LIMITS.held_seconds - 5.0) for item in numbered]
    stall = stall_of(ranks, 0.5, 0.5, LIMITS)
    assert stall is not None and stall.hang_seconds == LIMITS.held_seconds
    ranks = [item._replace(moved_age=300.0) for item in numbered]
    stall = stall_of(ranks, 0.5, 0.5, LIMITS)
    assert stall is not None and stall.hang_seconds == 305.0


@pytest.mark.parametrize(
    "goes_on",
    [
        EVALUATES._replace(work=Work.CPU),
        EVALUATES._replace(work=None),
        EVALUATES._replace(host=EVALUATES),
        EVALUATES._replace(host=EVALUATES, work=Work.CPU),
    ],
    ids=["runs", "may run", "busy device", "runs, busy device"],
)
def test_what_may_go_on_and_holds_others_up_is_a_pause_first(goes_on: RankSituation) -> None:
    """A rank that evaluates more than before costs time, and wakes nobody for a quarter of an
    hour. Nor is it taken for a hang at the moment at which another one is seen not to run."""
    assert hangs_after(WAITS, goes_on) == LIMITS.pause_seconds
    assert hangs_after(WAITS, goes_on, EVALUATES) == LIMITS.pause_seconds
    assert not pause.detect(stalled(LIMITS.held_seconds - 1.0, WAITS, goes_on), pause.LIMITS)
    (finding,) = pause.detect(stalled(LIMITS.held_seconds + 1.0, WAITS, goes_on), pause.LIMITS)
    assert (finding.rank, finding.phase) == (1, "eval")
    assert "in an evaluation, which takes longer than any before" in finding.summary
    longer: Longest = {Phase.EVAL: 400.0}
    assert not pause.detect(stalled(599.0, WAITS, goes_on, longest=longer), pause.LIMITS)
    assert pause.detect(stalled(601.0, WAITS, goes_on, longest=longer), pause.LIMITS)


def test_of_ranks_in_a_pause_the_one_that_runs_is_named() -> None:
    runs = EVALUATES._replace(work=Work.CPU)
    (finding,) = pause.detect(stalled(500.0, WAITS, EVALUATES, runs), pause.LIMITS)
    assert "rank 2 is running outside any collective in an evaluation" in finding.summary
    elsewhere = runs._replace(phase=Phase.OTHER)
    (finding,) = pause.detect(stalled(500.0, WAITS, elsewhere, runs), pause.LIMITS)
    assert (
        "ranks 1-2 are running outside any collective in work that no hook names" in finding.summary
    )


def test_where_nobody_waits_one_that_runs_holds_nobody_up() -> None:
    runs = EVALUATES._replace(work=Work.CPU)
    for ranks in ((runs, runs), (runs, EVALUATES), (runs,)):
        assert hangs_after(*ranks) == LIMITS.pause_seconds


def test_a_host_that_waits_in_a_collective_holds_nobody_up_while_its_device_is_busy() -> None:
    """Its device is still in what the host left behind: the line is that of the device."""
    waits = WAITS._replace(in_collective=False, host=WAITS)
    assert stalled(200.0, waits, EVALUATES._replace(work=Work.CPU)) is not None


def test_what_the_job_came_out_of_is_of_the_same_phase_and_bounded() -> None:
    least = LIMITS.marked_seconds
    assert hangs_after(WAITS, EVALUATES, longest={}) == least
    only_saves = {Phase.CHECKPOINT: 200.0}
    assert hangs_after(WAITS, EVALUATES, longest=only_saves) == least
    assert hangs_after(WAITS, EVALUATES, SAVES, longest=only_saves) == 300.0
    unseen = OtherRanks(unseen=(Unseen(2, "b", 900.0),))
    assert hangs_after(WAITS, SAVES, longest=only_saves, other_ranks=unseen) == least
    hours = {Phase.EVAL: 3600.0}
    assert hangs_after(WAITS, EVALUATES, longest=hours) == LIMITS.held_seconds


def test_what_is_not_marked_may_take_what_the_job_came_out_of_too() -> None:
    loads = EVALUATES._replace(phase=Phase.DATA)
    assert hangs_after(WAITS, loads) == LIMITS.legal_seconds
    longer: Longest = {Phase.DATA: 120.0}
    assert hangs_after(WAITS, loads, longest=longer) == 180.0
    assert pause.detect(stalled(30.0, WAITS, loads), pause.LIMITS)
    assert not pause.detect(stalled(150.0, WAITS, loads, longest=longer), pause.LIMITS)


def test_where_nobody_waits_they_may_wait_for_what_no_line_shows() -> None:
    assert hangs_after(EVALUATES, EVALUATES) == LIMITS.marked_seconds


def test_of_a_rank_that_is_stopped_its_phase_says_nothing() -> None:
    stopped = EVALUATES._replace(process=ProcessState.STOPPED)
    assert hangs_after(WAITS, stopped) < LIMITS.legal_seconds


def test_the_longest_time_in_a_phase_but_for_the_first_step() -> None:
    pauses, rows = UsualPauses(), step_rows(range(6), range(2))
    rows["eval_ns"][:2], rows["flags"][:2] = 60 * NANOSECONDS, StepFlag.FIRST
    pauses.add(rows)
    assert pauses.longest(Phase.EVAL) == 0.0
    for step, rank, seconds in ((4, 0, 5.0), (4, 1, 7.0), (2, 1, 3.0)):
        rows = step_rows([step], [rank])
        rows["eval_ns"] = round(seconds * NANOSECONDS)
        pauses.add(rows)
    assert pauses.longest(Phase.EVAL) == 7.0
    assert pauses.longest(Phase.CHECKPOINT) == 0.0
    assert pauses.longest(Phase.FORWARD) == pytest.approx(0.05)


def standing_in_an_evaluation(*, took: float, previous_s: float = 0.0) -> DetectionContext:
    """Four ranks, of which three wait and one evaluates, asleep, for three minutes.

    Evaluations took so many seconds, and `before` those of an earlier attempt.
    """
    job, steps = LiveJob(JOB), 40
    of_attempts = [(0, took)] if not previous_s else [(0, previous_s), (1, took)]
    for attempt, seconds in of_attempts:
        for item in run_segments(steps):
            rows = item.tables[Kind.STEP]
            rows["eval_ns"][np.isin(rows["step"], (10, 20))] = round(seconds * NANOSECONDS)
            key = item.key._replace(attempt=attempt)
            job.apply(item._replace(key=key), Received(0.0, 100.0))
    states = state_rows(range(4), 4, 1000.0, steps, 180.0)
    states["in_collective"][:3] = 1
    states["phase"][3:] = Phase.EVAL
    newest = segment(9000, {Kind.RANK_STATE: read_before(states)}, attempt=of_attempts[-1][0])
    job.apply(newest, Received(0.0, 100.0))
    return DetectionContext(job, 100.0)


def test_from_steps_to_the_rank_that_hangs_in_an_evaluation() -> None:
    (finding,) = hang.find(standing_in_an_evaluation(took=10.0))
    assert (finding.rank, finding.phase) == (3, "eval")
    assert not hang.find(standing_in_an_evaluation(took=130.0))


def test_those_before_a_restart_were_usual_too() -> None:
    assert hang.find(standing_in_an_evaluation(took=10.0, previous_s=11.0))
    assert not hang.find(standing_in_an_evaluation(took=10.0, previous_s=130.0))


@pytest.mark.parametrize(
    ("phase", "where"),
    [
        (Phase.CHECKPOINT, "it is in checkpoint, and"),
        (Phase.FORWARD, "it is in forward, microbatch 3, and"),
    ],
)
def test_only_forward_and_backward_have_microbatches(phase: Phase, where: str) -> None:
    stopped = WAITS._replace(
        in_collective=False, phase=phase, microbatch=3, process=ProcessState.STOPPED
    )
    stall = stalled(LIMITS.legal_seconds, WAITS, stopped)
    (finding,) = hang.detect(stall)
    assert where in finding.summary
