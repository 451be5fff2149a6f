"""What-if: how long the steps of a window would have taken without one kind of waste.

The model. Every step synchronises all ranks, so the rank with the most self time sets its length,
and all else in the step (transfer, bubble, pauses) stays as it was. A step therefore gets shorter
by what the largest self time gets smaller. What follows from that:
- ordinary jitter counts as straggling: a healthy run gains something, too;
- ranks that share cores get slower when the straggler no longer leaves them the machine, which is
  not counted: on such a machine the gain is too high;
- a slow rank on a stage with slack costs only what exceeds the limiting stage, and a shorter stage
  shortens nobody's bubble: there the gain is too low;
- perfect overlap hides the transfer of the limiting rank entirely, whatever work there is to hide
  it behind; its wait for others stays.
Only steps that every rank reported count, without first steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import known_stages, self_time, stage_work
from stepwatch.collector.analysis.step_time_breakdown import Exposed
from stepwatch.collector.state.trackers.step_window import Window
from stepwatch.signals.arrays import Matrix, Vector

LEAST_STEPS = 3
"""Fewer steps are no basis for a what-if."""
WITHOUT_STRAGGLERS = "without stragglers"
WITHOUT_IMBALANCE = "without stage imbalance"
WITH_OVERLAP = "with perfect overlap"


class WhatIf(NamedTuple):
    """One scenario over `steps` steps of `world` ranks; None where its facts are unknown.

    `step_seconds` is the mean step time then, `faster_ratio` the gain in steps per second,
    `device_hours` the device time that the window would have saved.
    """

    scenario: str
    steps: int
    step_seconds: float | None
    faster_ratio: float | None
    device_hours: float | None


def what_if(window: Window, split: Exposed) -> list[WhatIf]:
    """Replay `window` (complete steps only) in each scenario; empty with fewer than `LEAST_STEPS`.

    `split` belongs to the same steps. Imbalance is left out where there are no two known stages;
    stragglers are unknown where some stages are. Alone on its stage, a rank is never a straggler.
    """
    if len(window.steps) < LEAST_STEPS:
        return []
    work = self_time(window)
    saved = {WITHOUT_STRAGGLERS: np.full(len(work), np.nan)}
    stages = known_stages(window)
    if stages or (window.stage < 0).all():
        saved[WITHOUT_STRAGGLERS] = _saved(work, _without_stragglers(work, window))
    if len(stages) > 1:
        saved[WITHOUT_IMBALANCE] = _saved(work, _without_imbalance(work, window))
    limiting = work.argmax(axis=1)
    saved[WITH_OVERLAP] = split.transfer[np.arange(len(work)), limiting]
    return [_replayed(name, window, seconds) for name, seconds in saved.items()]


def _without_stragglers(work: Matrix, window: Window) -> Matrix:
    """Each rank works as long as the low median of its stage; one stage where none is known."""
    _, where = np.unique(window.stage, return_inverse=True)
    then: Matrix = stage_work(work, window.stage)[:, where]
    return then


def _without_imbalance(work: Matrix, window: Window) -> Matrix:
    """Each stage works as long as the mean of all; a rank keeps what it differs from its own."""
    _, where = np.unique(window.stage, return_inverse=True)
    stages = stage_work(work, window.stage)
    then: Matrix = work - stages[:, where] + stages.mean(axis=1, keepdims=True)
    return then


def _saved(work: Matrix, then: Matrix) -> Vector:
    """Seconds per step that the largest self time gets smaller; it never gets larger."""
    saved: Vector = np.maximum(work.max(axis=1) - then.max(axis=1), 0.0)
    return saved


def _replayed(scenario: str, window: Window, saved: Vector) -> WhatIf:
    """Over the steps in which it is known what would be saved."""
    known = ~np.isnan(saved)
    count, ranks = int(known.sum()), window.planes["duration"].shape[1]
    durations = window.planes["duration"][known].mean(axis=1, dtype=np.float64)
    now, less = float(durations.sum()), float(np.minimum(saved[known], durations).sum())
    if count < LEAST_STEPS or now - less <= 0:
        return WhatIf(scenario, count, None, None, None)
    return WhatIf(
        scenario, count, (now - less) / count, now / (now - less) - 1.0, less * ranks / 3600
    )
