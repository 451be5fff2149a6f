"""Inputs of the loss detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.job import LiveJob
from stepwatch.signals.arrays import Integers, Vector

from . import detector

HISTORY_STEPS = 16_384
"""Steps of a job, over all attempts, whose losses are looked at."""


def find(context: DetectionContext) -> list[Finding]:
    """A loss that jumps, rises or stops falling."""
    found = detector.detect(*losses_of(context.job), detector.LIMITS)
    return [context.dated(finding) for finding in found]


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
        kept = slice(max(0, count - HISTORY_STEPS), count)
        rows = step_history.rows[kept]
        steps.append(step_history.steps[kept])
        losses.append(np.where(rows["reported"] >= attempt.world, rows["loss"], np.nan))
    newest = slice(-HISTORY_STEPS, None)
    return np.concatenate(steps)[newest], np.concatenate(losses)[newest]
