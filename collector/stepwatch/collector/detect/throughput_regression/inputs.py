"""Inputs for the throughput regression detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.first_steps import course_of
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.observed import observed_ranks, window_of
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.state.evidence.step_window import COLUMNS
from stepwatch.collector.state.step_clock import early_baseline_on
from stepwatch.collector.step_clocks import HOST

from .detector import LIMITS, Shift, detect
from .least_wait import LeastWaiting, least_waiting, with_least_waiting, with_unobserved

HISTORY_STEPS = 4096
"""Number of newest steps searched for the first slow one."""
PAUSES = ("checkpoint", "eval")


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a job that is slower than before, or than others in its class."""
    newest = slice(max(0, len(context.attempt.steps.history) - HISTORY_STEPS), None)
    # Both on the devices' clock, or both on the hosts': a host that reads no loss only enqueues.
    clock = HOST if context.window.clock == HOST else context.first_steps.clock
    course, baseline = (
        course_of(context.attempt, newest, clock, len(context.left_out)),
        context.first_steps.baseline(clock),
    )
    limits = context.thresholds(LIMITS)
    peers = [peer.speed for peer in context.class_throughput.peers(context.job.name)]
    findings = detect(course, baseline, peers, None, limits)
    if (
        findings
    ):  # only a finding needs the grown part of the step: it reads all planes of the window
        findings = detect(course, baseline, peers, _shift(context), limits)
    least = _least_waiting(context) if findings else None
    if least is not None:
        findings = [with_least_waiting(finding, least) for finding in findings]
    if context.unobserved:
        findings = [with_unobserved(finding, context.unobserved) for finding in findings]
    return [with_clock(context, finding, clock) for finding in findings]


def _least_waiting(context: DetectionContext) -> LeastWaiting | None:
    """Return the least waiting ranks in the newest steps; None while unknown."""
    ranks, limits = observed_ranks(context), context.thresholds(LIMITS)
    window = window_of(context.window, ranks)
    rows = np.flatnonzero(usable_steps(window))
    if not context.compares_ranks or not len(rows):
        return None
    waits = window.plane("collective", rows) + np.nan_to_num(window.plane("pipeline_wait", rows))
    step = float(np.median(step_seconds(window)[rows]))
    waiters = least_waiting(waits, step, limits)
    # A rank that waits all the same waits for an unobserved rank.
    hidden = context.unobserved and waiters and waiters.waits > limits.least_wait_gap * step
    if waiters is None or hidden:
        return None
    return waiters._replace(ranks=tuple(ranks[list(waiters.ranks)].tolist()))


def _shift(context: DetectionContext) -> Shift | None:
    """Return the part of a step that grew most over the baseline; None while unknown."""
    attempt, window = context.first_steps.attempt, context.window
    baseline = early_baseline_on(attempt, window.clock).seconds(attempt.world)
    window = window_of(window, observed_ranks(context))
    usable = usable_steps(window)
    if not baseline or not usable.any():
        return None
    shifts = [
        Shift(name, float(np.median(window.planes[name][usable].mean(axis=1))), usual)
        for name, usual in ((name, float(np.median(baseline[name]))) for name in COLUMNS[1:])
        if name not in PAUSES
    ]
    most = max(shifts, key=lambda shift: shift.now - shift.baseline)
    return most if most.now > most.baseline else None
