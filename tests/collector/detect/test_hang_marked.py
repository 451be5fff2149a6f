"""How long an evaluation or a save that is marked may take, by those before and by what runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepwatch.collector.detect import hang, pause
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.hang import LIMITS, Others, RankSituation, Stall, stall_of
from stepwatch.collector.detect.hang.marked import Longest
from stepwatch.collector.detect.hang.situation import NO_OTHERS, NOBODY_ASKED, Unseen
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.usual_pauses import UsualPauses
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Op, Phase, ProcessState
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
EVALUATES = WAITS._replace(in_collective=False, phase=Phase.EVAL, cpu_ratio=0.0)
SAVES = EVALUATES._replace(phase=Phase.CHECKPOINT)
SHORT: Longest = {Phase.EVAL: 6.0, Phase.CHECKPOINT: 6.0}


def hangs_after(
    *ranks: RankSituation, longest: Longest = SHORT, others: Others = NO_OTHERS
) -> float:
    """Seconds after which these ranks are a hang, with steps of half a second."""
    numbered = [
        item._replace(rank=rank, moved_age=LIMITS.pause_seconds) for rank, item in enumerate(ranks)
    ]
    stall = stall_of(numbered, 0.5, 0.5, LIMITS, NOBODY_ASKED, others, longest)
    assert stall is not None
    assert not hang.detect(stall._replace(seconds=stall.hang_seconds - 1.0), LIMITS)
    assert hang.detect(stall, LIMITS)
    return stall.hang_seconds


def test_much_longer_than_any_before_where_nobody_runs() -> None:
    assert hangs_after(WAITS, EVALUATES) == LIMITS.least_evaluation_seconds
    assert hangs_after(WAITS, SAVES) == LIMITS.least_save_seconds
    in_it = WAITS._replace(phase=Phase.EVAL)
    assert hangs_after(in_it, in_it) == LIMITS.least_evaluation_seconds
    longer = {Phase.EVAL: 50.0, Phase.CHECKPOINT: 40.0}
    assert hangs_after(WAITS, EVALUATES, longest=longer) == 50.0 * LIMITS.pause_multiple
    assert hangs_after(WAITS, SAVES, longest=longer) == 40.0 * LIMITS.pause_multiple
    assert hangs_after(WAITS, EVALUATES, SAVES, longest=longer) == 50.0 * LIMITS.pause_multiple


@pytest.mark.parametrize(
    "outside",
    [
        EVALUATES._replace(process=ProcessState.UNINTERRUPTIBLE),
        EVALUATES._replace(host=WAITS),
        EVALUATES._replace(host=WAITS, cpu_ratio=1.0),
    ],
    ids=["waits for storage", "its device is busy", "it runs and its device is busy"],
)
def test_as_long_as_any_where_one_may_do_more_than_before(outside: RankSituation) -> None:
    assert hangs_after(WAITS, EVALUATES, outside) == LIMITS.pause_seconds


@pytest.mark.parametrize("cpu_ratio", [1.0, math.nan], ids=["runs", "may run"])
def test_while_one_runs_for_which_others_wait_it_is_a_pause_first(cpu_ratio: float) -> None:
    """A rank that evaluates more than before holds the others up: a ticket, and a page before the
    collective's timeout ends the job."""
    runs = EVALUATES._replace(cpu_ratio=cpu_ratio)
    assert hangs_after(WAITS, runs) == LIMITS.held_seconds
    assert hangs_after(WAITS, runs, EVALUATES) == LIMITS.held_seconds
    assert hangs_after(WAITS, runs, longest={Phase.EVAL: 60.0}) == 60.0 * LIMITS.pause_multiple
    assert hangs_after(runs, runs) == LIMITS.pause_seconds
    assert hangs_after(runs, EVALUATES) == LIMITS.pause_seconds

    def stall(seconds: float, *ranks: RankSituation) -> Stall | None:
        aged = [
            item._replace(rank=rank, moved_age=seconds) for rank, item in enumerate((WAITS, *ranks))
        ]
        return stall_of(aged, 0.5, 0.5, LIMITS, NOBODY_ASKED, NO_OTHERS, SHORT)

    least = LIMITS.least_evaluation_seconds
    assert stall(least - 1.0, runs) is None
    assert stall(least + 1.0, runs, EVALUATES) is None
    (found,) = pause.detect(stall(least + 1.0, runs), pause.LIMITS)
    assert (found.rank, found.phase) == (1, "eval")
    assert "in an evaluation, which takes more than ten times as long" in found.summary
    assert not hang.detect(stall(least + 1.0, runs), LIMITS)


def test_as_long_as_any_where_too_little_is_known() -> None:
    assert hangs_after(WAITS, EVALUATES, longest={}) == LIMITS.pause_seconds
    only_saves = {Phase.CHECKPOINT: 6.0}
    assert hangs_after(WAITS, EVALUATES, longest=only_saves) == LIMITS.pause_seconds
    assert hangs_after(WAITS, EVALUATES, SAVES, longest=only_saves) == LIMITS.pause_seconds
    unseen = Others(unseen=(Unseen(2, "b", 900.0),))
    assert hangs_after(WAITS, EVALUATES, others=unseen) == LIMITS.pause_seconds
    hours = {Phase.EVAL: 3600.0}
    assert hangs_after(WAITS, EVALUATES, longest=hours) == LIMITS.pause_seconds


def test_where_nobody_waits_they_may_wait_for_what_no_line_shows() -> None:
    assert hangs_after(EVALUATES, EVALUATES) == LIMITS.held_seconds


def test_of_a_rank_that_is_stopped_its_phase_says_nothing() -> None:
    stopped = EVALUATES._replace(process=ProcessState.STOPPED)
    assert hangs_after(WAITS, stopped) < LIMITS.least_evaluation_seconds


def test_the_longest_counts_once_two_steps_had_one() -> None:
    pauses, rows = UsualPauses(), step_rows(range(6), range(2))
    pauses.add(rows)
    assert math.isnan(pauses.longest(Phase.EVAL))
    for step, rank, seconds in ((4, 0, 5.0), (4, 1, 7.0), (2, 1, 3.0)):
        rows = step_rows([step], [rank])
        rows["eval_ns"] = round(seconds * NANOSECONDS)
        pauses.add(rows)
        known = pauses.longest(Phase.EVAL)
        assert math.isnan(known) if step == 4 else known == 7.0
    assert math.isnan(pauses.longest(Phase.CHECKPOINT))
    assert math.isnan(pauses.longest(Phase.FORWARD))


def standing_in_an_evaluation(*, evaluated: tuple[int, ...]) -> DetectionContext:
    """Four ranks, of which three wait and one evaluates, asleep, for longer than evaluations in
    the steps `evaluated` explain."""
    job, steps = LiveJob(JOB), 40
    for item in run_segments(steps):
        rows = item.tables[Kind.STEP]
        rows["eval_ns"][np.isin(rows["step"], evaluated)] = NANOSECONDS // 10
        job.apply(item, Received(0.0, 100.0))
    states = state_rows(range(4), 4, 1000.0, steps, LIMITS.least_evaluation_seconds + 1.0)
    states["in_collective"][:3] = 1
    states["phase"][3:] = Phase.EVAL
    job.apply(segment(9000, {Kind.RANK_STATE: read_before(states)}), Received(0.0, 100.0))
    return DetectionContext(job, 100.0)


def test_from_steps_to_the_rank_that_hangs_in_an_evaluation() -> None:
    (finding,) = hang.find(standing_in_an_evaluation(evaluated=(10, 20)))
    assert (finding.rank, finding.phase) == (3, "eval")
    assert not hang.find(standing_in_an_evaluation(evaluated=(10,)))
    assert not hang.find(standing_in_an_evaluation(evaluated=()))
