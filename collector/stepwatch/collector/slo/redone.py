"""Closed slices that change: a later attempt resumes before steps that are held no longer.

What each of these steps adds to the good device-seconds of its slice is kept, while it counts and
once it is redone, so the slice is summed again from all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.state.trackers.dropped_steps import REDOABLE
from stepwatch.collector.store.slices import Slice
from stepwatch.signals.arrays import Integers, Mask, Rows

_NO_ROWS: Rows = np.zeros(0, dtype=REDOABLE)


class RedoneSteps:
    """Which dropped steps of a job's attempts are redone, as the slices of one SLI have it."""

    def __init__(self, sli: str) -> None:
        self._sli = sli
        self._known: Mapping[int, int] = {}
        """From which of its dropped steps on an attempt is redone, by its number."""
        self._newest: Mapping[int, int] = {}

    def changed(
        self, line: SliceLine, attempts: Mapping[int, AttemptSteps], closed_before_s: float
    ) -> list[Slice]:
        """The closed slices that differ from those in `line`, with their versions counted on."""
        self._newest = {
            number: each.redone_from
            for number, each in attempts.items()
            if each.redone_from is not None and each.redone_from < each.first_step
        }
        if self._newest == self._known:
            return []
        changed = list(self._changed_starts(attempts))
        if not changed or not len(line):
            return []
        places = np.unique(line.covering(np.concatenate(changed)))
        places = places[places >= 0]
        good = np.zeros(len(line))
        for attempt in attempts.values():
            rows = _rows(attempt, self._sli)
            at = line.covering(rows["start_s"])
            redone = _is_redone(rows, attempt)
            good += np.bincount(
                at[at >= 0],
                weights=np.where(redone, rows["redone"], rows["kept"])[at >= 0],
                minlength=len(line),
            )
        return line.with_good(places, good[places], closed_before_s)

    def accept(self) -> None:
        """What `changed` returned is stored."""
        self._known = self._newest

    def _changed_starts(self, attempts: Mapping[int, AttemptSteps]) -> Iterator[Integers]:
        """Where the slices start that steps are in which were redone and are not, or the other way
        round."""
        for number, attempt in attempts.items():
            before, now = self._known.get(number), self._newest.get(number)
            if before == now:
                continue
            rows = _rows(attempt, self._sli)
            first = min(each for each in (before, now) if each is not None)
            yield rows["start_s"][_next_step(rows, attempt) > first]


def _rows(attempt: AttemptSteps, sli: str) -> Rows:
    """Rows of `REDOABLE`; none where the SLI does not ask what is redone."""
    if attempt.dropped is None:
        return _NO_ROWS
    return attempt.dropped.redoable.get(sli, _NO_ROWS)


def _is_redone(rows: Rows, attempt: AttemptSteps) -> Mask:
    """Which rows are redone: whole, if one of their steps is."""
    if attempt.redone_from is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(_next_step(rows, attempt) > attempt.redone_from)


def _next_step(rows: Rows, attempt: AttemptSteps) -> Integers:
    """The step behind those of each row."""
    return np.append(rows["first_step"][1:], attempt.first_step)[: len(rows)]
