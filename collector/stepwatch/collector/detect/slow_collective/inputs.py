"""Inputs of the slow-collective detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.state.collective_timing import waits
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.collector.state.trackers.step_window import WORK

from .detector import LIMITS, Steps, detect

RECENT_STEPS = 12
"""Steps that are looked at each time; only a finding is worth looking back further."""
ROWS_BACK = 1 << 18
"""(step, rank) cells looked back over."""


def find(context: DetectionContext) -> list[Finding]:
    """Operations whose transfer takes longer than their baseline."""
    attempt = context.attempt
    if not context.baseline.calls:
        return []
    found = _over(context, RECENT_STEPS)
    if found:
        back = max(RECENT_STEPS, ROWS_BACK // max(1, attempt.world))
        found = _over(context, back) or found
    return [context.dated(with_clock(context, finding)) for finding in found]


def _over(context: DetectionContext, newest: int) -> list[Finding]:
    window = context.window
    chosen = np.flatnonzero(usable_steps(window))[-newest:]
    baseline = context.baseline.work_of(len(window.stage))
    if not len(chosen) or not baseline:
        return []
    part = window.at(chosen)
    own = np.sum([part.planes[name] for name in WORK], axis=0, dtype=np.float64)
    before = np.sum([baseline[name] for name in WORK], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = np.fmax(1.0, np.median(own / before, axis=1))
    calls = collectives_on(context.attempt, window.clock)
    rows, groups = calls.of_steps(int(part.steps[0]), int(part.steps[-1])), calls.groups
    return detect(
        waits(rows, groups),
        groups,
        context.baseline.calls,
        Steps(part.steps, step_seconds(part), slowdown, own - before),
        LIMITS,
    )
