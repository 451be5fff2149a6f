"""Inputs for the loss detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.recorded_numbers import recorded_numbers
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.steps.step_history import NEWEST_STEPS
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.clock import NANOSECONDS

from . import detector, reasons

HISTORY_STEPS = 16_384
"""Number of a job's steps, over all attempts, whose losses are evaluated."""
LATELY_SECONDS = 15
"""How long a completed spike is still found, in seconds.

This is longer than the interval between two evaluations, and than the delay of late agent reports.
"""


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a loss that jumps, rises or stops falling."""
    lately = _ended_lately(context.job)
    limits = context.thresholds(detector.LIMITS)
    findings = detector.detect(*losses_of(context.job), limits, lately)
    return [context.dated(_with_numbers(context, finding, limits)) for finding in findings]


def _with_numbers(
    context: DetectionContext, finding: Finding, limits: detector.Thresholds
) -> Finding:
    """Return the finding with its reason if one is known, and with the recorded numbers."""
    numbers = recorded_numbers(context, finding.began_step)
    finding = reasons.with_reason(context, finding, limits)
    return finding._replace(evidence=(*finding.evidence, *numbers))


def _ended_lately(job: LiveJob) -> int | None:
    """Return the first step that ended in the newest attempt's last `LATELY_SECONDS`.

    Many steps may end between two evaluations, and with them a whole spike.
    """
    history = job.current.steps.history
    ends = history.rows["end_unset_ns"]
    if not len(ends):
        return None
    newest = int(ends[-NEWEST_STEPS:].max())
    recent = np.flatnonzero(ends > max(0, newest - LATELY_SECONDS * NANOSECONDS))
    return history.held_from + int(recent[0]) if len(recent) else None


def losses_of(job: LiveJob) -> tuple[Integers, Vector]:
    """Return a job's steps and losses, without steps that a later attempt repeated.

    A step's loss is unknown until all ranks have reported it.
    """
    steps, losses = [], []
    for attempt, lost_from in job.ordered():
        step_history = attempt.steps.history
        count = len(step_history.rows)
        if lost_from is not None:
            count = max(0, min(count, lost_from - step_history.held_from))
        newest_rows = slice(max(0, count - HISTORY_STEPS), count)
        rows = step_history.rows[newest_rows]
        first = step_history.held_from
        steps.append(np.arange(first + newest_rows.start, first + newest_rows.stop))
        expected = attempt.attendance.expected_ranks(steps[-1])
        losses.append(np.where(rows["reported"] >= expected, rows["loss"], np.nan))
    if len(steps) == 1:  # nearly always: nothing to concatenate
        return steps[0], losses[0]
    numbers = np.concatenate(steps)
    anew = np.flatnonzero(np.diff(numbers) <= 0)  # a trainer that counts from zero again
    newest = slice(max(len(numbers) - HISTORY_STEPS, int(anew[-1]) + 1 if len(anew) else 0), None)
    return numbers[newest], np.concatenate(losses)[newest]
