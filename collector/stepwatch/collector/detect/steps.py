"""Shared step functions for detectors: usable steps, durations, and the start of a run."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.evidence.step_window import RingPlanes, Window
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.signals.arrays import FloatMatrix, Mask, MaskMatrix, Vector
from stepwatch.signals.records import StepFlag

LOADER_SHARE = 0.005
"""A rank whose data time is a smaller part of its steps loads none, as in later pipeline stages."""


def usable_steps(window: Window) -> Mask:
    """Return the steps that every rank reported, beyond the warm-up after a start; shape (steps,).

    Callers must not write to the result: all detectors in an evaluation share it.
    """
    planes = window.planes
    if isinstance(planes, RingPlanes):
        return planes.once(usable_steps, lambda: _usable(window))
    return _usable(window)


def _usable(window: Window) -> Mask:
    complete: Mask = np.asarray(~np.isnan(window.planes["duration"]).any(axis=1))
    profiled = (window.flags & StepFlag.PROFILED).any(axis=1)
    return np.asarray(complete & ~profiled & beyond_warmup(window))


def beyond_warmup(window: Window) -> Mask:
    """Return the steps beyond the warm-up after a start; shape (steps,)."""
    first = np.flatnonzero((window.flags & StepFlag.FIRST).any(axis=1))
    began = window.steps[first[-1]] + WARMUP_STEPS if len(first) else -1
    return np.asarray(window.steps >= began)


def step_seconds(window: Window) -> Vector:
    """Return each step's seconds (steps,) on its slowest rank, less checkpoint and evaluation."""
    planes = window.planes
    longest = planes["duration"] - planes["checkpoint"] - planes["eval"]
    seconds: Vector = longest.max(axis=1, initial=0.0).astype(np.float64)
    return seconds


def loads_data(data: Vector, seconds: Vector | float) -> Mask:
    """Return which ranks load data, from each rank's seconds of data (ranks,) in `seconds`."""
    return np.asarray(data >= LOADER_SHARE * np.maximum(seconds, 1e-9))


def first_of_run(belongs: Mask, gap: int = 2) -> int:
    """Return the index of the first step in the run that reaches the newest step.

    The search goes back until `gap` steps in a row do not belong to the run; without any, the
    result is the last index.
    """
    first, healthy = len(belongs) - 1, 0
    for index in range(len(belongs) - 1, -1, -1):
        if belongs[index]:
            first, healthy = index, 0
        else:
            healthy += 1
            if healthy >= gap:
                break
    return first


def exceeds(
    values: FloatMatrix,
    expected: FloatMatrix,
    seconds: Vector,
    ratio: float,
    excess_ratio: float,
) -> MaskMatrix:
    """Return where `values` (steps, columns) are too long, relative to both references.

    A value is at least `ratio` times its expected one, and the excess is at least `excess_ratio` of
    the step, which takes `seconds` (steps,).
    """
    return np.asarray(
        (values >= ratio * expected)
        & (values - expected >= excess_ratio * seconds[:, None])
        & (seconds[:, None] > 0)
    )


def is_persistent(slow: MaskMatrix, window_steps: int, least_steps: int) -> Mask:
    """Return the rows of `slow` (rows, steps) with enough slow newest steps, the last included."""
    newest = slow[:, -window_steps:]
    return np.asarray((newest.sum(axis=1) >= least_steps) & newest[:, -1])


FAR_RATIO = 2.5
"""A slow step is far above its reference from this ratio: no host's noise reaches it repeatedly."""
LONG_STEP_SECONDS = 15.0
"""Few far steps in a row are enough if their number times their total seconds reaches this.

Two that take 7.5 s together, or three that take 5 s: a momentary host slowdown is over by then.
"""


FEWEST_CERTAIN = 2
"""Steps: one long step is a pause, however long."""


def is_certain(
    slow: MaskMatrix, values: FloatMatrix, expected: FloatMatrix, seconds: Vector
) -> Mask:
    """Return the rows in which the newest two or three steps are long, slow, and far too slow.

    `slow`, the `values` and the `expected` ones are (rows, steps); the steps take `seconds`
    (steps,).
    """
    far = slow & (values >= FAR_RATIO * expected)
    for steps in (FEWEST_CERTAIN, FEWEST_CERTAIN + 1):
        newest = seconds[-steps:]
        if len(newest) == steps and steps * float(newest.sum()) >= LONG_STEP_SECONDS:
            return np.asarray(far[:, -steps:].all(axis=1))
    return np.zeros(len(far), dtype=np.bool_)
