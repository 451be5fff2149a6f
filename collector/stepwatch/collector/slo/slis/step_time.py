"""Step time: device-seconds in steps that are not slow, of all device-seconds in steps."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.signals.arrays import Vector

SLOW_STEP_FACTOR = 2.0
"""A step longer than this many baselines of its attempt is slow (p95 <= 2 x p50 is the mark)."""


def good_and_total(attempt: AttemptSteps) -> tuple[Vector, Vector]:
    """Good: device-seconds in steps no longer than `SLOW_STEP_FACTOR` x the attempt's baseline.

    Where the baseline is NaN (too few steps yet, or none on that clock), a step is neither good nor
    bad, and counts for neither.
    """
    steps = attempt.steps
    slow = steps.longest > SLOW_STEP_FACTOR * attempt.baseline_seconds
    total = np.where(np.isnan(attempt.baseline_seconds), 0.0, steps.busy)
    return np.where(slow, 0.0, total), total


SLI = Sli("step-time", good_and_total)
