"""Counts non-finite values on this node's ranks, with the collector's rule.

The agent counts them so that an alert fires without a collector. The collector names rank and
step; this is a count per job.
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
    """Consecutive steps that a loss scaler may have skipped: the newest step, and their number."""

    newest: int = -1
    length: int = 0


class NonFinite:
    """Count since the agent's start, for each followed job.

    A job keeps its count between two attempts, so that repeated values still look new. Beyond
    `MOST_JOBS` jobs, the one without a new count for longest is forgotten.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Counted records by followed job. Another thread reads it: replace, never mutate."""
        self._totals: dict[str, int] = {}
        self._runs: dict[AttemptKey, _Run] = {}

    def follow(self, attempts: Collection[AttemptKey]) -> None:
        """Show these attempts' jobs."""
        self._runs = {key: run for key, run in self._runs.items() if key in attempts}
        self.counts = {key.job: self._totals.get(key.job, 0) for key in attempts}

    def count(self, key: AttemptKey, rows: Rows | None) -> None:
        """Count an attempt's NUMERICS rows.

        Call it after the rows are spooled, so that none counts twice.
        """
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
        """Return those steps that a loss scaler does not explain.

        `steps` have a scaled loss; a long series in a row is not the scaler's.
        """
        run, lasting = self._runs.get(key, _Run()), []
        for step in np.unique(steps).tolist():
            if step > run.newest:
                run = _Run(step, run.length + 1 if step == run.newest + 1 else 1)
            if step > run.newest - run.length + SCALER_STEPS:
                lasting.append(step)
        self._runs[key] = run
        return lasting
