"""The wait between pipeline stages that their work and their schedule alone explain.

A job that was slow from its first step has no other baseline. A schedule has one: with `m`
microbatches a step takes no longer than the slowest stage's work, plus each other stage's work on
one microbatch, for the first to pass through and for the last to follow. A longer wait is the
transfer between stages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import STAGE_WORK, self_time
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.signals.arrays import Vector
from stepwatch.signals.wire import Rows

_NOT_IN_STAGES = tuple(name for name in WORK if name not in STAGE_WORK)


def schedule_wait(window: Window, stages: Sequence[int], microbatches: float) -> Vector:
    """Return the seconds (steps,) that ranks wait for other stages on average without transfers.

    Stages count by their slowest rank. The other ranks may also wait for work between one rank's
    passes that takes longer than on another, such as loading data.

    Worked example: four stages of 0.2 s each, eight microbatches: a step takes 0.2 + 3 * 0.2 / 8 =
    0.275 s, in which a rank waits 0.075 s.
    """
    work, outside = self_time(window, STAGE_WORK), self_time(window, _NOT_IN_STAGES)
    slowest = np.stack([work[:, window.stage == number].max(axis=1) for number in stages], axis=1)
    longest = slowest.max(axis=1)
    length = longest + (slowest.sum(axis=1) - longest) / max(1.0, microbatches)
    wait: Vector = length - work.mean(axis=1) + outside.max(axis=1) - outside.min(axis=1)
    return wait


def microbatches_by(ideal_bubble_ratio: float | None, stages: int, sends: Rows) -> float:
    """Return the microbatches per step.

    They follow from the unavoidable bubble if it is known, else from the number of sends from one
    rank to another; 1 without either, as if stages worked in turn. A bubble of 3/11 in four stages
    gives eight.
    """
    if ideal_bubble_ratio is not None and 0.0 < ideal_bubble_ratio < 1.0:
        return (stages - 1) * (1.0 - ideal_bubble_ratio) / ideal_bubble_ratio
    return float(np.median(sends["count"])) if len(sends) else 1.0
