"""Pipeline stages over a window: how busy each is, how unequal they are, which one sets the pace.

Shares are of the step without checkpoint and evaluation. Busy is the rank's self time in any phase;
the bubble is everything else, so it holds the waits for neighbours and the exposed collectives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.trackers.steps.step_window import MAX_STAGES, WORK, Window
from stepwatch.signals.arrays import FloatMatrix, Mask, Matrix, SmallIntegers
from stepwatch.signals.records import StepFlag

STAGE_WORK = ("forward", "backward")
"""Phases that differ with the layers of a stage."""


class Stage(NamedTuple):
    """One stage: ratios of its ranks' step time.

    `work_seconds` is the forward and backward per step of its usual rank, the low median.
    """

    stage: int
    ranks: int
    busy_ratio: float
    pipeline_wait_ratio: float
    collective_ratio: float
    bubble_ratio: float
    work_seconds: float


class Pipeline(NamedTuple):
    """The stages, the one whose work takes longest, and in which share of the steps it does.

    `bubble_ratio` is the share of the time in forward, backward and waits for neighbours that was
    such a wait: what a schedule's ideal compares with. `imbalance_ratio` is the limiting stage's
    work over the mean of all stages: 1 is balanced.
    """

    stages: tuple[Stage, ...]
    bubble_ratio: float | None
    imbalance_ratio: float | None
    limiting_stage: int | None
    limiting_ratio: float | None


def self_time(window: Window, phases: tuple[str, ...] = WORK) -> Matrix:
    """Seconds (steps, ranks) of a rank's self time; NaN where nothing was received."""
    total: Matrix = np.sum([window.planes[name] for name in phases], axis=0, dtype=np.float64)
    return total


def complete_steps(window: Window) -> Window:
    """The steps that every rank reported, without first steps."""
    usable: Mask = np.asarray(~np.isnan(window.planes["duration"]).any(axis=1))
    usable &= ~(window.flags & StepFlag.FIRST).any(axis=1)
    return window.at(usable)


def known_stages(window: Window) -> list[int]:
    """Stage numbers in rising order; none where the stage of a rank is unknown."""
    numbers = _distinct(window.stage.tobytes(), window.stage.dtype.str)
    return [*numbers] if numbers and numbers[0] >= 0 and len(numbers) <= MAX_STAGES else []


@lru_cache(maxsize=64)
def _distinct(stages: bytes, dtype: str) -> tuple[int, ...]:
    """Distinct numbers of an array as bytes: stages stay as they are, and five detectors ask."""
    return tuple(np.unique(np.frombuffer(stages, dtype=np.dtype(dtype))).tolist())


def stage_work(work: Matrix, stage: SmallIntegers) -> Matrix:
    """Low median (steps, stages) over the ranks of each stage, stages in rising order.

    Low, because of two ranks the slow one must not be half of what counts as usual.
    """
    columns = []
    for number in np.unique(stage):
        rank_work = work[:, stage == number]
        middle = (rank_work.shape[1] - 1) // 2
        columns.append(np.partition(rank_work, middle, axis=1)[:, middle])
    return np.stack(columns, axis=1)


def pipeline(window: Window) -> Pipeline | None:
    """Compare the stages over complete steps.

    None where there is no complete step, the stage of a rank is unknown, or there is one stage.
    """
    window = complete_steps(window)
    numbers = known_stages(window)
    if not len(window.steps) or len(numbers) < 2:
        return None
    work = stage_work(self_time(window, STAGE_WORK), window.stage)
    means = work.mean(axis=0)
    stages = tuple(
        _stage(window, number, seconds)
        for number, seconds in zip(numbers, means.tolist(), strict=True)
    )
    if means.mean() <= 0:
        return Pipeline(stages, None, None, None, None)
    slowest = int(np.argmax(means))
    ratio = float((work.argmax(axis=1) == slowest).mean())
    imbalance = float(means.max() / means.mean())
    return Pipeline(stages, bubble_ratio(window), imbalance, numbers[slowest], ratio)


def bubble_ratio(window: Window) -> float | None:
    """Share of the ranks' time in the pipeline that they waited for neighbours; None without any.

    Exposed collectives are neither work nor bubble.
    """
    waited = float(window.planes["pipeline_wait"].sum(dtype=np.float64))
    inside = waited + float(self_time(window, STAGE_WORK).sum())
    return waited / inside if inside > 0 else None


def _stage(window: Window, number: int, work_seconds: float) -> Stage:
    members = window.stage == number
    pauses = window.planes["checkpoint"] + window.planes["eval"]
    total = float((window.planes["duration"] - pauses)[:, members].sum(dtype=np.float64))

    def ratio(plane: FloatMatrix) -> float:
        return float(plane[:, members].sum(dtype=np.float64)) / total if total > 0 else 0.0

    busy = ratio(self_time(window))
    return Stage(
        stage=number,
        ranks=int(members.sum()),
        busy_ratio=busy,
        pipeline_wait_ratio=ratio(window.planes["pipeline_wait"]),
        collective_ratio=ratio(window.planes["collective"]),
        bubble_ratio=1.0 - busy,
        work_seconds=work_seconds,
    )
