"""Pipeline stages whose work has grown beside that of the others, by what ten minutes show.

A stage of which all ranks are slow, and a rank alone in its stage, have no peers: their past is all
there is to compare them with. Work is taken over that of the other stages, so that a host or a
batch that all share changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.change import Change, change_in
from stepwatch.collector.analysis.medians import median
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import Cube, Matrix, SmallIntegers, Vector

LEAST_BEFORE, LEAST_AFTER = 3, 12
"""Buckets before and after a change: half a minute and two minutes."""
LEAST_SURE = 8.0
"""Standard errors: one false alarm in more years than there are, where stretches are independent;
they are not quite, so that much is left for it."""
_STAGE_WORK = tuple(WORK.index(name) for name in WORK if name != "other")
_NEWEST = 3


class GrownStage(NamedTuple):
    """A stage that works longer since step `first_step`, most in `phase`; `lost` is the share of
    the job's time that it costs."""

    stage: int
    phase: str
    first_step: int
    change: Change
    lost: float


def grown_stages(course: Course, stage: SmallIntegers) -> list[GrownStage]:
    """The stages that are slower than they were, the costliest first; `stage` (ranks,)."""
    numbers = np.unique(stage).tolist()
    if len(numbers) < 2 or len(course.seconds) < LEAST_BEFORE + LEAST_AFTER:
        return []
    if course.work.shape[2] != len(stage):
        return []
    step_work = course.work[:, _STAGE_WORK].astype(np.float64) / course.steps[:, None, None]
    work = np.stack([_low_median(step_work[:, :, stage == number]) for number in numbers], axis=2)
    candidates = [_grown(course, work, index, number) for index, number in enumerate(numbers)]
    return sorted(filter(None, candidates), key=lambda grown: -grown.lost)


def lasting_change(values: Vector) -> Change | None:
    """The change of a series of buckets, if it is sure, is in most of them, and is still there."""
    change = change_in(values, LEAST_BEFORE, LEAST_AFTER)
    if change is None or change.sure < LEAST_SURE or not _parts(values, change):
        return None
    now = median(values[-_NEWEST:])
    return change if now >= (change.before + change.after) / 2 else None


def _parts(values: Vector, change: Change) -> bool:
    """Whether three in four values before a change lie below the middle of it, and three in four
    after it above.

    A loader that stalls now and then does so in some buckets and not in others: a median is one or
    the other, and what most of them differ by is next to nothing. Of 0, 0, 0, 9, 0, 9 before and
    9, 0, 9, 9, 0, 9 after, the medians are 0 and 9.
    """
    earlier, later = values[: change.at], values[change.at :]
    middle = (change.before + change.after) / 2
    return bool(np.quantile(earlier, 0.75) < middle < np.quantile(later, 0.25))


def lost_ratio(course: Course, change: Change, excess_seconds: float) -> float:
    """Share of the time lost to so many seconds more a step: no more than steps are longer by."""
    seconds = course.seconds / course.steps
    seconds_before, seconds_after = (
        float(np.median(part)) for part in (seconds[: change.at], seconds[change.at :])
    )
    return max(0.0, min(excess_seconds, seconds_after - seconds_before)) / seconds_after


def _low_median(work: Cube) -> Matrix:
    """The median rank, of two the quicker one: a single slow rank is not its stage."""
    middle = (work.shape[2] - 1) // 2
    return np.asarray(np.partition(work, middle, axis=2)[:, :, middle])


def _grown(course: Course, work: Cube, index: int, number: int) -> GrownStage | None:
    """The stage at index `index` of `work` (buckets, phases, stages), seconds per step."""
    totals = work.sum(axis=1)
    peer_means = np.delete(totals, index, axis=1).mean(axis=1)
    if not (peer_means > 0).all():
        return None
    change = lasting_change(totals[:, index] / peer_means)
    if change is None:
        return None
    excess = (change.after - change.before) * float(np.median(peer_means[change.at :]))
    phase_work = work[:, :, index]
    more = np.median(phase_work[change.at :], axis=0) - np.median(phase_work[: change.at], axis=0)
    return GrownStage(
        stage=number,
        phase=WORK[_STAGE_WORK[int(np.argmax(more))]],
        first_step=int(course.first_step[change.at]),
        change=change,
        lost=lost_ratio(course, change, excess),
    )
