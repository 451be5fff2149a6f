"""Counts what the ranks of this node held that is not finite, by the rule of the collector.

Counted here too, so that an alert sees it where no collector evaluates. The collector names the
rank and the step; this is a count for each job.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from stepwatch.agent.keys import AttemptKey
from stepwatch.signals.records import LOSS_SCALED, SCALER_STEPS, NumericsSource
from stepwatch.signals.wire import Rows

MOST_JOBS = 1024
_SOURCES = (
    NumericsSource.COLLECTIVE_INPUT,
    NumericsSource.LOSS,
    NumericsSource.GRAD_NORM,
    NumericsSource.GRAD_NORM_SHARE,
)


class _Run(NamedTuple):
    """Steps in a row that a loss scaler may have left out: the newest, and how many."""

    newest: int = -1
    length: int = 0


class NonFinite:
    """Counts since the agent began, of each job whose ranks it follows.

    A job that pauses between two attempts counts on, so that the same values again do not look
    like no news; of `MOST_JOBS` jobs the one longest without a new count is forgotten.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Records that count, of the jobs that are followed now; replaced, never changed, since
        another thread reads it."""
        self._totals: dict[str, int] = {}
        self._runs: dict[AttemptKey, _Run] = {}

    def follow(self, attempts: Collection[AttemptKey]) -> None:
        """Show the jobs of these attempts."""
        self._runs = {key: run for key, run in self._runs.items() if key in attempts}
        self.counts = {key.job: self._totals.get(key.job, 0) for key in attempts}

    def count(self, key: AttemptKey, rows: Rows | None) -> None:
        """Count NUMERICS rows of one attempt; call it once they are kept, so that none is twice."""
        if rows is None or not (rows["nonfinite"] > 0).any():
            return
        rows = rows[rows["nonfinite"] > 0]
        scaled = rows["source"] & LOSS_SCALED > 0
        lasting = self._lasting(key, rows["step"][scaled])
        evaluated = np.isin(rows["source"] & ~np.uint16(LOSS_SCALED), _SOURCES)
        counted = int((evaluated & (~scaled | np.isin(rows["step"], lasting))).sum())
        self._totals[key.job] = self._totals.pop(key.job, 0) + counted
        if len(self._totals) > MOST_JOBS:
            del self._totals[next(iter(self._totals))]
        self.counts = {**self.counts, key.job: self._totals[key.job]}

    def _lasting(self, key: AttemptKey, steps: np.ndarray) -> list[int]:
        """Of these steps with a scaled loss, those after so many in a row that no scaler explains
        them."""
        run, lasting = self._runs.get(key, _Run()), []
        for step in np.unique(steps).tolist():
            if step > run.newest:
                run = _Run(step, run.length + 1 if step == run.newest + 1 else 1)
            if step > run.newest - run.length + SCALER_STEPS:
                lasting.append(step)
        self._runs[key] = run
        return lasting
