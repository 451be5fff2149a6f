"""Pipeline stages over a window: utilization, imbalance, and the limiting stage.

Ratios are relative to the step without checkpoint and evaluation. Busy time is the rank's self time
in any phase; the bubble is the rest, including waits for neighbours and exposed collectives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import MAX_STAGES, WORK, Window
from stepwatch.signals.arrays import FloatMatrix, Mask, Matrix, SmallIntegers
from stepwatch.signals.records import StepFlag

STAGE_WORK = ("forward", "backward")
"""Phases that depend on a stage's layers."""


class Stage(NamedTuple):
    """One stage: ratios over its ranks' step time.

    `work_seconds` is its typical rank's forward and backward time per step (low median).
    """

    stage: int
    ranks: int
    busy_ratio: float
    pipeline_wait_ratio: float
    collective_ratio: float
    bubble_ratio: float
    work_seconds: float


class Pipeline(NamedTuple):
    """The stages, the limiting stage, and the share of steps in which it is the slowest.

    `bubble_ratio` is the share of pipeline wait in forward, backward and pipeline wait together;
    compare it with a schedule's ideal. `imbalance_ratio` is the limiting stage's work over the mean
    over all stages: 1 is balanced.
    """

    stages: tuple[Stage, ...]
    bubble_ratio: float | None
    imbalance_ratio: float | None
    limiting_stage: int | None
    limiting_ratio: float | None


def self_time(window: Window, phases: tuple[str, ...] = WORK) -> Matrix:
    """Return each rank's self time in seconds (steps, ranks); NaN without data."""
    total: Matrix = np.sum([window.planes[name] for name in phases], axis=0, dtype=np.float64)
    return total


def complete_steps(window: Window) -> Window:
    """Return the steps that every rank reported, without first steps."""
    usable: Mask = np.asarray(~np.isnan(window.planes["duration"]).any(axis=1))
    usable &= ~(window.flags & StepFlag.FIRST).any(axis=1)
    return window.select(usable)


def known_stages(window: Window) -> list[int]:
    """Return the stage numbers in ascending order; empty if any rank's stage is unknown."""
    numbers = _distinct(window.stage.tobytes(), window.stage.dtype.str)
    return [*numbers] if numbers and numbers[0] >= 0 and len(numbers) <= MAX_STAGES else []


@lru_cache(maxsize=64)
def _distinct(stages: bytes, dtype: str) -> tuple[int, ...]:
    """Return an array's distinct numbers.

    Cached, as stages rarely change and five detectors ask.
    """
    return tuple(np.unique(np.frombuffer(stages, dtype=np.dtype(dtype))).tolist())


def stage_work(work: Matrix, stage: SmallIntegers) -> Matrix:
    """Return the low median over each stage's ranks (steps, stages), stages in ascending order.

    With two ranks, a plain median would include half of the slow one.
    """
    columns = []
    for number in np.unique(stage):
        rank_work = work[:, stage == number]
        middle = (rank_work.shape[1] - 1) // 2
        columns.append(np.partition(rank_work, middle, axis=1)[:, middle])
    return np.stack(columns, axis=1)


def pipeline(window: Window) -> Pipeline | None:
    """Compare the stages over complete steps.

    Returns None without a complete step, with an unknown stage, or with a single stage.
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
    """Return pipeline wait as a share of the ranks' pipeline time; None without any.

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
