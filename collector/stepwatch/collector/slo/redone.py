"""Late changes to slices: a later attempt resumes before steps that were already dropped.

Each dropped step's contribution to its slice's good device-seconds is kept, for the case that the
step counts and for the case that it is redone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.state.job import RunKey
from stepwatch.collector.state.trackers.steps.dropped_steps import REDOABLE
from stepwatch.signals.arrays import Integers, Mask, Rows

_NO_ROWS: Rows = np.zeros(0, dtype=REDOABLE)


class RedoneSteps:
    """Dropped steps of a job's attempts that are redone, as stored in one SLI's slices."""

    def __init__(self, sli: str) -> None:
        self._sli = sli
        self._known: Mapping[RunKey, int] = {}
        """First redone dropped step, by attempt."""
        self._newest: Mapping[RunKey, int] = {}

    def first_change(self, attempts: Mapping[RunKey, AttemptSteps]) -> float:
        """Return the start of the first slice whose steps changed between redone and not redone.

        Infinite without a change.
        """
        self._newest = {
            number: attempt.redone_from
            for number, attempt in attempts.items()
            if attempt.redone_from is not None and attempt.redone_from < attempt.first_step
        }
        if self._newest == self._known:
            return math.inf
        moment = math.inf
        for number, attempt in attempts.items():
            previous, now = self._known.get(number), self._newest.get(number)
            if previous == now:
                continue
            rows = redoable(attempt, self._sli)
            first = min(step for step in (previous, now) if step is not None)
            starts = rows["start_s"][_next_step(rows, attempt) > first]
            moment = min(moment, float(starts.min()) if len(starts) else math.inf)
        return moment

    def accept(self) -> None:
        """Confirm that the changed slices are stored."""
        self._known = self._newest


def redoable(attempt: AttemptSteps, sli: str) -> Rows:
    """Return the rows of `REDOABLE`; none if the SLI does not depend on redone steps."""
    if attempt.dropped is None:
        return _NO_ROWS
    return attempt.dropped.redoable.get(sli, _NO_ROWS)


def is_redone(attempt: AttemptSteps, sli: str) -> Mask:
    """Return which rows are redone; one redone step makes the whole row redone."""
    rows = redoable(attempt, sli)
    if attempt.redone_from is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(_next_step(rows, attempt) > attempt.redone_from)


def _next_step(rows: Rows, attempt: AttemptSteps) -> Integers:
    """Return the step after each row's last step."""
    return np.append(rows["first_step"][1:], attempt.first_step)[: len(rows)]
