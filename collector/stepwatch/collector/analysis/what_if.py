"""What-if: a window's step time without one kind of waste.

The model: every step synchronises all ranks, so the rank with the most self time sets its length.
Everything else in the step (transfer, bubble, pauses) stays the same. A step therefore shortens by
the decrease in the largest self time. Consequences:

- The rank with the most self time varies between steps because of jitter, which cannot be removed.
  A step counts only if its longest rank (stage) is the longest more often than by chance, and then
  only beyond the jitter (`_beyond_jitter`). A rank that is slow sometimes is underestimated.
- Ranks that share cores slow down once the straggler no longer leaves them the machine. The model
  ignores this, so there the gain is too high.
- A slow rank on a stage with slack costs only its excess over the limiting stage, and a shorter
  stage does not shorten other stages' bubbles: there the gain is too low.
- Perfect overlap hides the limiting rank's entire transfer, even without enough work to hide it
  behind; its arrival skew stays.

Only steps that every rank reported count, without first steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import known_stages, self_time, stage_work
from stepwatch.collector.analysis.step_time_breakdown import Exposed
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.statistics.tails import at_least
from stepwatch.signals.arrays import Integers, Mask, Matrix, SmallIntegers, Vector

LEAST_STEPS = 3
"""Minimum number of steps for a what-if."""
MOST_CHANCE = 0.01
"""Maximum probability that a rank is so often the longest in its stage by chance, per window.

With ten steps and two ranks, the same rank must be the longest in all of them.
"""
WITHOUT_STRAGGLERS = "without stragglers"
WITHOUT_IMBALANCE = "without stage imbalance"
WITH_OVERLAP = "with perfect overlap"


class WhatIf(NamedTuple):
    """One scenario over `steps` steps with `world` ranks; None where its inputs are unknown.

    `step_seconds` is the resulting mean step time, `faster_ratio` the gain in steps per second,
    `device_hours` the saved device time in the window.
    """

    scenario: str
    steps: int
    step_seconds: float | None
    faster_ratio: float | None
    device_hours: float | None


def what_if(window: Window, split: Exposed) -> list[WhatIf]:
    """Replay `window` (complete steps only) in each scenario; empty with fewer than `LEAST_STEPS`.

    `split` covers the same steps. Imbalance is omitted without two known stages; stragglers are
    unknown if only some stages are known. A rank alone in its stage is never a straggler.
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
    """Give each rank its stage's low median; without known stages, all ranks are one stage."""
    _, where = np.unique(window.stage, return_inverse=True)
    then: Matrix = stage_work(work, window.stage)[:, where]
    return then


def _without_imbalance(work: Matrix, window: Window) -> Matrix:
    """Give each stage the mean work over all stages; a rank keeps its difference from its stage."""
    _, where = np.unique(window.stage, return_inverse=True)
    stages = stage_work(work, window.stage)
    then: Matrix = work - stages[:, where] + stages.mean(axis=1, keepdims=True)
    return then


def _more_often_than_chance(longest: Integers, group: SmallIntegers) -> Mask:
    """Return the steps (steps,) whose `longest` member is the longest more often than by chance.

    `group` (members,) marks comparable members: each would be the longest in equally many steps.
    Example: four members, longest in ten steps 2, 2, 1, 2, 2, 2, 2, 2, 2, 2 -> all but the third.
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
    """Return seconds per step that `then` saves, less its saving for equal ranks.

    Equal ranks have the same jitter and the same median. Outside the `often` steps, jitter alone
    explains the longest rank, and the saving is 0.
    """
    usual = _low_median(work)[None, :]
    alike = work - usual + then(usual, window)
    jitter = float(_low_median(_saved(alike, then(alike, window))))
    saved = np.maximum(_saved(work, then(work, window)) - jitter, 0.0)
    return np.asarray(np.where(often, saved, 0.0))


def _low_median(values: Matrix | Vector) -> Vector:
    """Return the low median over the steps: half of them may be slow."""
    middle = (len(values) - 1) // 2
    return np.asarray(np.partition(values, middle, axis=0)[middle])


def _saved(work: Matrix, then: Matrix) -> Vector:
    """Return the decrease in the largest self time in seconds per step, at least 0."""
    saved: Vector = np.maximum(work.max(axis=1) - then.max(axis=1), 0.0)
    return saved


def _replayed(scenario: str, window: Window, saved: Vector) -> WhatIf:
    """Return the scenario over the steps with a known saving."""
    replayable = ~np.isnan(saved)
    count, ranks = int(replayable.sum()), window.planes["duration"].shape[1]
    durations = window.planes["duration"][replayable].mean(axis=1, dtype=np.float64)
    now, less = float(durations.sum()), float(np.minimum(saved[replayable], durations).sum())
    if count < LEAST_STEPS or now - less <= 0:
        return WhatIf(scenario, count, None, None, None)
    return WhatIf(
        scenario, count, (now - less) / count, now / (now - less) - 1.0, less * ranks / 3600
    )
