"""Slices that change long after their time: a later attempt resumes before steps that are held no
longer.

What each of these steps adds to the good device-seconds of its slice is kept, while it counts and
once it is redone.
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
    """Which dropped steps of a job's attempts are redone, as the slices of one SLI have it."""

    def __init__(self, sli: str) -> None:
        self._sli = sli
        self._known: Mapping[RunKey, int] = {}
        """From which of its dropped steps on an attempt is redone, by its number."""
        self._newest: Mapping[RunKey, int] = {}

    def first_change(self, attempts: Mapping[RunKey, AttemptSteps]) -> float:
        """Where the first slice starts that steps are in which were redone and are not, or the
        other way round; infinite where there is none."""
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
        """The slices that changed are stored."""
        self._known = self._newest


def redoable(attempt: AttemptSteps, sli: str) -> Rows:
    """Rows of `REDOABLE`; none where the SLI does not ask what is redone."""
    if attempt.dropped is None:
        return _NO_ROWS
    return attempt.dropped.redoable.get(sli, _NO_ROWS)


def is_redone(attempt: AttemptSteps, sli: str) -> Mask:
    """Which of its rows are redone: whole, if one of their steps is."""
    rows = redoable(attempt, sli)
    if attempt.redone_from is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(_next_step(rows, attempt) > attempt.redone_from)


def _next_step(rows: Rows, attempt: AttemptSteps) -> Integers:
    """The step behind those of each row."""
    return np.append(rows["first_step"][1:], attempt.first_step)[: len(rows)]
