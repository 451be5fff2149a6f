"""Inputs of the loss detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.steps.step_history import NEWEST_STEPS
from stepwatch.signals.arrays import Integers, Vector
from stepwatch.signals.clock import NANOSECONDS

from . import detector

HISTORY_STEPS = 16_384
"""Steps of a job, over all attempts, whose losses are looked at."""
LATELY_SECONDS = 15
"""How long a spike that is over is still found: longer than from one evaluation to the next, or
until what an agent reports late is there."""


def find(context: DetectionContext) -> list[Finding]:
    """A loss that jumps, rises or stops falling."""
    lately = _ended_lately(context.job)
    findings = detector.detect(*losses_of(context.job), detector.LIMITS, lately)
    return [context.dated(finding) for finding in findings]


def _ended_lately(job: LiveJob) -> int | None:
    """The first step of the newest attempt of those that ended in the last `LATELY_SECONDS` of it.

    Many steps may end between two evaluations, and with them a whole spike.
    """
    history = job.current.step_history
    ends = history.rows["end_unset_ns"]
    if not len(ends):
        return None
    newest = int(ends[-NEWEST_STEPS:].max())
    recent = np.flatnonzero(ends > max(0, newest - LATELY_SECONDS * NANOSECONDS))
    return history.held_from + int(recent[0]) if len(recent) else None


def losses_of(job: LiveJob) -> tuple[Integers, Vector]:
    """Steps and losses of a job, without steps that a later attempt redid.

    The loss of a step that some rank has not reported is unknown yet.
    """
    steps, losses = [], []
    for attempt, lost_from in job.ordered():
        step_history = attempt.step_history
        count = len(step_history.rows)
        if lost_from is not None:
            count = max(0, min(count, lost_from - step_history.held_from))
        newest_rows = slice(max(0, count - HISTORY_STEPS), count)
        rows = step_history.rows[newest_rows]
        first = step_history.held_from
        steps.append(np.arange(first + newest_rows.start, first + newest_rows.stop))
        expected = attempt.expected_ranks(steps[-1])
        losses.append(np.where(rows["reported"] >= expected, rows["loss"], np.nan))
    if len(steps) == 1:  # nearly always: nothing to put together
        return steps[0], losses[0]
    newest = slice(-HISTORY_STEPS, None)
    return np.concatenate(steps)[newest], np.concatenate(losses)[newest]
