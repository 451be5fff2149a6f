"""What-if: how long the steps of a window would have taken without one kind of waste.

The model. Every step synchronises all ranks, so the rank with the most self time sets its length,
and all else in the step (transfer, bubble, pauses) stays as it was. A step therefore gets shorter
by what the largest self time gets smaller. What follows from that:
- the rank with the most self time differs from step to step by jitter, which nobody can take out:
  a step counts only where its longest rank (stage) is so more often than chance makes it, and then
  by what exceeds the jitter (`_beyond_jitter`): a rank that is slow now and then counts too little;
- ranks that share cores get slower when the straggler no longer leaves them the machine, which is
  not counted: on such a machine the gain is too high;
- a slow rank on a stage with slack costs only what exceeds the limiting stage, and a shorter stage
  shortens nobody's bubble: there the gain is too low;
- perfect overlap hides the transfer of the limiting rank entirely, whatever work there is to hide
  it behind; its wait for others stays.
Only steps that every rank reported count, without first steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.chance import at_least
from stepwatch.collector.analysis.pipeline_stages import known_stages, self_time, stage_work
from stepwatch.collector.analysis.step_time_breakdown import Exposed
from stepwatch.collector.state.trackers.steps.step_window import Window
from stepwatch.signals.arrays import Integers, Mask, Matrix, SmallIntegers, Vector

LEAST_STEPS = 3
"""Fewer steps are no basis for a what-if."""
MOST_CHANCE = 0.01
"""A rank that is the longest of its stage so often that chance does it in less than one window of
a hundred; with ten steps of two ranks, the same one in all of them."""
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
    stages, limiting = known_stages(window), work.argmax(axis=1)
    if stages or (window.stage < 0).all():
        often = _more_often_than_chance(limiting, window.stage)
        saved[WITHOUT_STRAGGLERS] = _beyond_jitter(work, window, _without_stragglers, often)
    if len(stages) > 1:
        of_stage = window.stage[limiting]
        often = _more_often_than_chance(of_stage, np.zeros(max(stages) + 1, dtype=np.int16))
        saved[WITHOUT_IMBALANCE] = _beyond_jitter(work, window, _without_imbalance, often)
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


def _more_often_than_chance(longest: Integers, group: SmallIntegers) -> Mask:
    """Steps (steps,) whose `longest` member of a group is so more often than chance makes it.

    `group` (members,) says who is alike: each is the longest of its group in as many steps, but for
    chance. Four alike, the longest of ten steps 2, 2, 1, 2, 2, 2, 2, 2, 2, 2 -> all but the third.
    """
    counts = np.bincount(longest, minlength=len(group))
    beyond = np.zeros(len(group), dtype=np.bool_)
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        steps, size = int(counts[members].sum()), len(members)
        for count in np.unique(counts[members]).tolist():
            rare = at_least(count, steps, 1 / size) * size <= MOST_CHANCE
            beyond[members[counts[members] == count]] = rare
    return np.asarray(beyond[longest])


def _beyond_jitter(
    work: Matrix, window: Window, then: Callable[[Matrix, Window], Matrix], often: Mask
) -> Vector:
    """Seconds per step that `then` saves, less what it saves of ranks that are alike.

    Alike are those of the same jitter whose medians are the same. Where the step is not `often`,
    jitter alone explains which rank was the longest.
    """
    usual = _low_median(work)[None, :]
    alike = work - usual + then(usual, window)
    jitter = float(_low_median(_saved(alike, then(alike, window))))
    saved = np.maximum(_saved(work, then(work, window)) - jitter, 0.0)
    return np.asarray(np.where(often, saved, 0.0))


def _low_median(values: Matrix | Vector) -> Vector:
    """Low median over the steps: half of them may be slow."""
    middle = (len(values) - 1) // 2
    return np.asarray(np.partition(values, middle, axis=0)[middle])


def _saved(work: Matrix, then: Matrix) -> Vector:
    """Seconds per step that the largest self time gets smaller; it never gets larger."""
    saved: Vector = np.maximum(work.max(axis=1) - then.max(axis=1), 0.0)
    return saved


def _replayed(scenario: str, window: Window, saved: Vector) -> WhatIf:
    """Over the steps in which it is known what would be saved."""
    replayable = ~np.isnan(saved)
    count, ranks = int(replayable.sum()), window.planes["duration"].shape[1]
    durations = window.planes["duration"][replayable].mean(axis=1, dtype=np.float64)
    now, less = float(durations.sum()), float(np.minimum(saved[replayable], durations).sum())
    if count < LEAST_STEPS or now - less <= 0:
        return WhatIf(scenario, count, None, None, None)
    return WhatIf(
        scenario, count, (now - less) / count, now / (now - less) - 1.0, less * ranks / 3600
    )
