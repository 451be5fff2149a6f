"""What stages of a pipeline may wait for each other, by their work and their schedule alone.

A job that was slow from its first step on has no other past to be compared with. A schedule has:
with `m` microbatches a step takes no longer than the slowest stage works, and what each of the
others works on one microbatch, until the first has come through and after the last has. What ranks
wait beyond it is the way between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import STAGE_WORK, self_time
from stepwatch.collector.state.trackers.steps.step_window import WORK, Window
from stepwatch.signals.arrays import Vector
from stepwatch.signals.wire import Rows

_NOT_IN_STAGES = tuple(name for name in WORK if name not in STAGE_WORK)


def schedule_wait(window: Window, stages: Sequence[int], microbatches: float) -> Vector:
    """Seconds (steps,) that ranks wait for other stages on average where transfers take none.

    Stages count by their slowest rank. What some rank does between its passes longer than another,
    loading data for example, the others may wait for, too.

    Worked example: four stages of 0.2 s each, eight microbatches: a step of
    0.2 + 3 * 0.2 / 8 = 0.275 s, of which a rank waits 0.075 s.
    """
    work, outside = self_time(window, STAGE_WORK), self_time(window, _NOT_IN_STAGES)
    slowest = np.stack([work[:, window.stage == number].max(axis=1) for number in stages], axis=1)
    longest = slowest.max(axis=1)
    length = longest + (slowest.sum(axis=1) - longest) / max(1.0, microbatches)
    wait: Vector = length - work.mean(axis=1) + outside.max(axis=1) - outside.min(axis=1)
    return wait


def microbatches_by(ideal_bubble_ratio: float | None, stages: int, sends: Rows) -> float:
    """Microbatches of a step: by the bubble that the schedule cannot avoid, where that is known,
    else as many as a rank sends to another; 1 without either, as if stages worked in turn.

    A bubble of 3/11 in four stages is that of eight.
    """
    if ideal_bubble_ratio is not None and 0.0 < ideal_bubble_ratio < 1.0:
        return (stages - 1) * (1.0 - ideal_bubble_ratio) / ideal_bubble_ratio
    return float(np.median(sends["count"])) if len(sends) else 1.0
