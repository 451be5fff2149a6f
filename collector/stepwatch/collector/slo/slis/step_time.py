"""Step time: the share of step device-seconds that is in steps at usual speed."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli, Standing
from stepwatch.signals.arrays import Vector

SLOW_STEP_FACTOR = 2.0
"""A step longer than this multiple of its attempt's baseline is slow (the goal: p95 <= 2 x p50)."""


def good_and_total(attempt: AttemptSteps) -> tuple[Vector, Vector]:
    """Return good and total device-seconds; steps up to `SLOW_STEP_FACTOR` x the baseline are good.

    If the baseline is NaN (too few steps yet, or none on that clock), a step counts for neither.
    Evaluations and saves are not part of a step. Neither is other ranks' wait for them in the step
    or the next one: a rank that evaluates at the end of a step enters the next one late. A stall is
    a step that does not end: it is bad while it lasts.

    Worked example: baseline 0.2 s; rank 0 evaluates for 3 s and the others wait for it, so that
    their step, or the next one, takes 3.2 s; 3.2 - 3 s is no more than 0.4 s: good.
    """
    steps = attempt.steps
    slow = steps.longest - attempt.paused_seconds > SLOW_STEP_FACTOR * attempt.baseline_seconds
    total = np.where(np.isnan(attempt.baseline_seconds), 0.0, steps.busy)
    return np.where(slow, 0.0, total), total


SLI = Sli("step-time", good_and_total, counts=Standing.STALLS)
