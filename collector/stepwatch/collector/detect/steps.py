"""What detectors share about steps: which are usable, how long they took, where a run begins."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.collector.state.trackers.steps.step_window import RingPlanes, Window
from stepwatch.signals.arrays import Mask, Vector
from stepwatch.signals.records import StepFlag


def usable_steps(window: Window) -> Mask:
    """Steps that every rank reported, beyond the warm-up after a start; shape (steps,).

    Not to be written to: all detectors of an evaluation are given the same.
    """
    planes = window.planes
    if isinstance(planes, RingPlanes):
        return planes.once(usable_steps, lambda: _usable(window))
    return _usable(window)


def _usable(window: Window) -> Mask:
    complete: Mask = np.asarray(~np.isnan(window.planes["duration"]).any(axis=1))
    return np.asarray(complete & beyond_warmup(window))


def beyond_warmup(window: Window) -> Mask:
    """Steps beyond the warm-up after a start; shape (steps,)."""
    first = np.flatnonzero((window.flags & StepFlag.FIRST).any(axis=1))
    began = window.steps[first[-1]] + WARMUP_STEPS if len(first) else -1
    return np.asarray(window.steps >= began)


def step_seconds(window: Window) -> Vector:
    """Seconds of each step on its slowest rank, without checkpoint and evaluation; (steps,)."""
    planes = window.planes
    longest = planes["duration"] - planes["checkpoint"] - planes["eval"]
    seconds: Vector = longest.max(axis=1, initial=0.0).astype(np.float64)
    return seconds


def first_of_run(belongs: Mask, gap: int = 2) -> int:
    """Index of the first step of the run that reaches the newest step.

    Goes back until `gap` steps in a row do not belong to it; the last index where none does.
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
