"""Detects pipeline stages whose work has grown relative to the others, over ten minutes.

A stage whose ranks are all slow, and a stage with a single rank, have no peers, so only their past
is a reference. Work is relative to the other stages: an effect on all, from a host or a batch,
cancels out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.change import Change, change_in
from stepwatch.collector.statistics.medians import median, quantiles
from stepwatch.signals.arrays import Cube, Matrix, SmallIntegers, Vector

LEAST_BEFORE, LEAST_AFTER = 3, 12
"""Minimum number of buckets before and after a change: half a minute and two minutes."""
LEAST_SURE = 8.0
"""Minimum significance in standard errors.

With independent buckets, false alarms would practically never occur; the margin covers their
dependence.
"""
_STAGE_WORK = tuple(WORK.index(name) for name in WORK if name != "other")
_NEWEST = 3


class GrownStage(NamedTuple):
    """A stage with more work since step `first_step`, mostly in `phase`.

    `lost` is its cost as a share of the job's time.
    """

    stage: int
    phase: str
    first_step: int
    change: Change
    lost: float

    @property
    def error(self) -> float:
        """Return the standard error of `lost`."""
        return self.lost / self.change.sure

    @property
    def log_odds(self) -> float:
        """Return the logarithm of one over the probability of such a change by chance."""
        return self.change.sure**2 / 2


def grown_stages(course: Course, stage: SmallIntegers) -> list[GrownStage]:
    """Return the stages that became slower, costliest first; `stage` is (ranks,)."""
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
    """Return a bucket series' change, if it is significant, dominant, and still present."""
    change = change_in(values, LEAST_BEFORE, LEAST_AFTER)
    if change is None or change.sure < LEAST_SURE or not _parts(values, change):
        return None
    now = median(values[-_NEWEST:])
    return change if now >= (change.earlier_level + change.later_level) / 2 else None


def _parts(values: Vector, change: Change) -> bool:
    """Return whether a change separates most values.

    Three in four values before it must lie below the midpoint, and three in four after it above. A
    loader that stalls sometimes affects some buckets and not others: the median is one or the
    other, and the typical difference is small. With 0, 0, 0, 9, 0, 9 before and 9, 0, 9, 9, 0, 9
    after, the medians are 0 and 9.
    """
    earlier, later = values[: change.split], values[change.split :]
    middle = (change.earlier_level + change.later_level) / 2
    return quantiles(earlier, (0.75,))[0] < middle < quantiles(later, (0.25,))[0]


def lost_ratio(course: Course, change: Change, excess_seconds: float) -> float:
    """Return the time share lost to `excess_seconds` per step, at most the steps' own growth."""
    seconds = course.seconds / course.steps
    seconds_before, seconds_after = (
        float(np.median(part)) for part in (seconds[: change.split], seconds[change.split :])
    )
    return max(0.0, min(excess_seconds, seconds_after - seconds_before)) / seconds_after


def _low_median(work: Cube) -> Matrix:
    """Return the low median over ranks: a single slow rank does not represent its stage."""
    middle = (work.shape[2] - 1) // 2
    return np.asarray(np.partition(work, middle, axis=2)[:, :, middle])


def _grown(course: Course, work: Cube, index: int, number: int) -> GrownStage | None:
    """Return the stage at `index` in `work` (buckets, phases, stages), in seconds per step."""
    totals = work.sum(axis=1)
    peer_means = np.delete(totals, index, axis=1).mean(axis=1)
    if not (peer_means > 0).all():
        return None
    change = lasting_change(totals[:, index] / peer_means)
    if change is None:
        return None
    excess = (change.later_level - change.earlier_level) * float(
        np.median(peer_means[change.split :])
    )
    phase_work = work[:, :, index]
    more = np.median(phase_work[change.split :], axis=0) - np.median(
        phase_work[: change.split], axis=0
    )
    return GrownStage(
        stage=number,
        phase=WORK[_STAGE_WORK[int(np.argmax(more))]],
        first_step=int(course.first_step[change.split]),
        change=change,
        lost=lost_ratio(course, change, excess),
    )
