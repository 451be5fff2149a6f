"""Which part of each step nothing moved in, and which part an evaluation or a save took. Pure."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.signals.arrays import Vector

STALL_TIMES, STALL_SECONDS = 8.0, 5.0
"""Beyond so many usual steps, and so many seconds, nothing moved: the hang detector's own marks."""


def paused_seconds(attempt: AttemptSteps) -> Vector:
    """Seconds for which ranks may wait, in each step (steps,), for evaluations and saves of others.

    A rank that evaluates at the end of a step enters the next one late: the pauses of all ranks in
    a step count in it and in the next one.
    """
    dropped = 0.0 if attempt.dropped is None else attempt.dropped.paused
    pauses = np.append(dropped, attempt.steps.pauses)
    return np.asarray(pauses[1:] + pauses[:-1])


def held_up_share(attempt: AttemptSteps) -> Vector:
    """Share of each step (steps,) in which nothing moved: what it takes beyond a usual one, if that
    is far more; 0 while the usual step is not known.

    Worked example: a usual step of 0.5 s; one of 25 s is 0.98 held up, one of 4 s not at all, and
    one of 25 s in which a rank evaluates for 24 s neither.
    """
    baseline = attempt.baseline_seconds
    usual = np.where(np.isnan(baseline), np.inf, baseline)
    longest = attempt.steps.longest - paused_seconds(attempt)
    stands = longest > np.maximum(STALL_TIMES * usual, usual + STALL_SECONDS)
    share = np.divide(
        longest - usual, attempt.steps.longest, out=np.zeros_like(longest), where=stands
    )
    return np.where(stands, share, 0.0)
