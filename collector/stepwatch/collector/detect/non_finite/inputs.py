"""Inputs for the non-finite detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.numerics import Numerics

from . import detector

LOOKED_BACK_STEPS = 4096


def _got_over(attempt: Attempt, needed: int) -> int:
    """Return the newest step that was followed by `needed` finite steps on every rank.

    A trainer that skips the step continues unharmed: parameters that hold NaN do not give a finite
    loss again. The result is -1 if the loss is not recorded.
    """
    step_history = attempt.steps.history
    newest = step_history.steps[-LOOKED_BACK_STEPS:]
    expected = np.maximum(attempt.attendance.expected_ranks(newest), 1)
    healthy = step_history.rows["loss_ranks"][-LOOKED_BACK_STEPS:] >= expected
    numerics = attempt.tracker(Numerics)
    bad = np.concatenate([numerics.bad["step"], numerics.scaled["step"]])
    healthy &= ~np.isin(newest, bad)
    if len(healthy) < needed:
        return -1
    runs = np.lib.stride_tricks.sliding_window_view(healthy, needed).all(axis=1)
    begins = step_history.steps[-len(healthy) :][np.flatnonzero(runs)]
    return int(begins[-1]) - 1 if len(begins) else -1


def find(context: DetectionContext) -> list[Finding]:
    """Return the rank that first held NaN or infinity; found until the attempt ends or recovers."""
    attempt = context.attempt
    numerics, limits = attempt.tracker(Numerics), context.thresholds(detector.LIMITS)
    if len(numerics.bad) or len(numerics.scaled):
        numerics.get_over(_got_over(attempt, limits.recovered_steps))
    rows = np.concatenate([numerics.bad, numerics.scaled])
    if not len(rows):
        return []
    step_history = attempt.steps.history
    newest = step_history.first + len(step_history) - 1
    over = bool(attempt.lifecycle.ended) or bool(attempt.outcome.gone)
    complete = attempt.attendance.complete_until
    findings = detector.detect(rows, complete, newest, limits, over=over)
    return [context.dated(finding) for finding in findings]
