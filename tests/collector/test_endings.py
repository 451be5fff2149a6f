"""What is over is not told: a job whose last rank tidies up, numbers that the run got over."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect import hang as detector
from stepwatch.collector.detect.non_finite import LIMITS
from stepwatch.collector.findings import Scene, hang, non_finite
from stepwatch.collector.live import Attempt, Heard, LiveJob
from stepwatch.collector.memory import Memory
from stepwatch.signals.records import DTYPES, Kind, LifecycleEvent, NumericsSource
from stepwatch.signals.wire import Rows

from .made import JOB, lifecycle_rows, run_segments, segment, state_rows, step_rows

STEPS = 40


def standing(moved_ago: float, *, waits: bool = False, finished: int = 3) -> Scene:
    """Four ranks of which the first ones have finished; the rest last moved so long ago."""
    job = LiveJob(JOB)
    for item in run_segments(STEPS):
        job.apply(item, Heard(0.0, 100.0))
    states = state_rows(range(4), 4, 1000.0, STEPS, moved_ago)
    states["in_collective"][3:] = waits
    told = {Kind.RANK_STATE: states}
    if finished:
        told[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.FINISH, range(finished), at=999.0)
    job.apply(segment(9000, told), Heard(0.0, 100.0))
    return Scene(job, 100.0)


def test_the_last_rank_may_tidy_up_but_not_wait_for_those_that_finished() -> None:
    assert hang.find(standing(60.0)) == []
    assert len(hang.find(standing(60.0, finished=0))) == 1
    assert len(hang.find(standing(60.0, waits=True))) == 1
    assert len(hang.find(standing(detector.LIMITS.pause_seconds + 1))) == 1


def bad_rows(step: int) -> Rows:
    rows = np.zeros(4, dtype=DTYPES[Kind.NUMERICS])
    rows["rank"], rows["step"], rows["nonfinite"] = range(4), step, 1
    rows["source"] = NumericsSource.COLLECTIVE_INPUT
    return rows


def overflow(steps: int, poisoned_from: int | None = None) -> Scene:
    """A gradient that is not finite in step 5, and what the losses were after it."""
    rows = step_rows(range(steps), range(4))
    if poisoned_from is not None:
        rows["loss"][rows["step"] >= poisoned_from] = np.nan
    job = LiveJob(JOB)
    told = {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.STEP: rows}
    job.apply(segment(1, {**told, Kind.NUMERICS: bad_rows(5)}), Heard(0.0, 0.0))
    return Scene(job, 0.0)


def test_an_overflow_is_told_until_enough_finite_losses_followed() -> None:
    assert len(non_finite.find(overflow(6 + LIMITS.recovered_steps - 1))) == 1
    assert non_finite.find(overflow(6 + LIMITS.recovered_steps)) == []
    assert len(non_finite.find(overflow(100, poisoned_from=6))) == 1


def test_a_second_overflow_is_told_after_the_first_was_got_over() -> None:
    scene = overflow(60)
    scene.attempt.numerics.add(bad_rows(58), 4)
    (finding,) = non_finite.find(scene)
    assert finding.began_step == 58


def test_memory_readings_count_and_are_given_back() -> None:
    attempt = Attempt(0)
    attempt.apply(segment(1, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0)}), Heard(0.0, 0.0))
    assert attempt.cells >= attempt.ring.cells + attempt.memory.cells > attempt.ring.cells
    attempt.release()
    assert attempt.cells == Memory().cells == 0


def test_each_attempt_loses_what_the_earliest_later_one_redid() -> None:
    job = LiveJob(JOB)
    for number, first in enumerate((0, 30, 20, 50)):
        told = {
            Kind.RANK_STATE: state_rows([0], 1, 1.0),
            Kind.STEP: step_rows(range(first, first + 9), [0]),
        }
        job.apply(segment(number + 1, told, attempt=number), Heard(0.0, 0.0))
    assert [(each.number, lost) for each, lost in job.ordered()] == [
        (0, 20),
        (1, 20),
        (2, 50),
        (3, None),
    ]
