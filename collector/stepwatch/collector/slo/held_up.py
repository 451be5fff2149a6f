"""The share of each step without any progress, and its evaluation and save time. Pure."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.signals.arrays import Vector

STALL_TIMES, STALL_SECONDS = 8.0, 5.0
"""Above this many usual steps and seconds, a step is a stall: the hang detector's own limits."""


def paused_seconds(attempt: AttemptSteps) -> Vector:
    """Return the seconds in each step (steps,) that ranks may wait for evaluations and saves.

    A rank that evaluates at the end of a step enters the next one late: all ranks' pauses in a step
    count in it and in the next one.
    """
    dropped = 0.0 if attempt.dropped is None else attempt.dropped.paused
    pauses = np.append(dropped, attempt.steps.pauses)
    return np.asarray(pauses[1:] + pauses[:-1])


def held_up_share(attempt: AttemptSteps) -> Vector:
    """Return the stalled share of each step (steps,); 0 while the usual step is unknown.

    It is the time beyond a usual step, if that is far more. Worked example: with a usual step of
    0.5 s, a step of 25 s is 0.98 stalled, a step of 4 s not at all, and neither is a step of 25 s
    in which a rank evaluates for 24 s.
    """
    baseline = attempt.baseline_seconds
    usual = np.where(np.isnan(baseline), np.inf, baseline)
    longest = attempt.steps.longest - paused_seconds(attempt)
    stands = longest > np.maximum(STALL_TIMES * usual, usual + STALL_SECONDS)
    share = np.divide(
        longest - usual, attempt.steps.longest, out=np.zeros_like(longest), where=stands
    )
    return np.where(stands, share, 0.0)
