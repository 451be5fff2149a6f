"""What detectors share about steps: which are usable, how long they took, where a run begins."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.trackers.step_history import WARMUP_STEPS
from stepwatch.collector.state.trackers.step_window import Window
from stepwatch.signals.arrays import Mask, Vector
from stepwatch.signals.records import StepFlag


def usable_steps(window: Window) -> Mask:
    """Steps that every rank reported, beyond the warm-up after a start; shape (steps,)."""
    complete: Mask = np.asarray(~np.isnan(window.planes["duration"]).any(axis=1))
    first = (window.flags & StepFlag.FIRST).any(axis=1)
    if first.any():
        complete &= window.steps >= window.steps[np.flatnonzero(first)[-1]] + WARMUP_STEPS
    return complete


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
