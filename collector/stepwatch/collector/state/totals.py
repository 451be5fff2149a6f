"""A job's exported counters: accumulators that only rise, whatever state is dropped.

Attempts are replaced, released and evicted, and a late rank changes a step's facts. So nothing here
is derived from state that may change: a row counts when it is stored, a step when it is settled
(`settled_steps`), a checkpoint when its outcome is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepwatch.collector.state.evidence.step_window import COLUMNS
from stepwatch.collector.state.folding.sums import whole_sum
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.wire import Rows

STEP_SECONDS_BOUNDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)
"""Upper bounds for step time in seconds, from a debug model to a long pipeline step."""
VERIFIED, FAILED = "verified", "failed"
"""Checkpoint outcomes; a verified checkpoint that is rejected later counts as failed, too."""


class Totals:
    """One job's accumulators over all its attempts.

    `rows` and `tokens` count STEP rows and their tokens. `steps` (bounds + 1,) counts steps by
    their slowest rank's time; the last entry is for steps above every bound. `steps_on` counts
    steps by clock, `checkpoints` by outcome. Times are summed in whole nanoseconds: the sum does
    not depend on the split, so a restart continues exactly where it was.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.tokens = 0
        self._nanoseconds = dict.fromkeys(COLUMNS, 0)
        self.steps = np.zeros(len(STEP_SECONDS_BOUNDS) + 1, dtype=np.int64)
        self.steps_on: dict[StepClock, int] = {DEVICE: 0, HOST: 0}
        self._step_nanoseconds = 0
        self.checkpoints = dict.fromkeys((VERIFIED, FAILED), 0)

    @property
    def seconds(self) -> dict[str, float]:
        """Each of `COLUMNS` summed over all STEP rows, seconds."""
        return {name: spent / NANOSECONDS for name, spent in self._nanoseconds.items()}

    @property
    def step_seconds(self) -> float:
        """Total time of the counted steps, seconds."""
        return self._step_nanoseconds / NANOSECONDS

    def add_rows(self, rows: Rows) -> None:
        """Count STEP rows, each (rank, step) once."""
        self.rows += len(rows)
        self.tokens += int(rows["tokens"].sum(dtype=np.uint64))
        for name in COLUMNS:
            self._nanoseconds[name] += whole_sum(rows[f"{name}_ns"])

    def add_steps(
        self, durations: np.ndarray[Any, np.dtype[np.float64]], clock: StepClock = HOST
    ) -> None:
        """Count steps by their slowest rank's seconds on `clock`; 0 means unreported."""
        reported = durations[durations > 0]
        self.steps_on[clock] += len(reported)
        places = np.searchsorted(STEP_SECONDS_BOUNDS, reported)  # a bound itself is in its bucket
        self.steps += np.bincount(places, minlength=len(self.steps))
        self._step_nanoseconds += sum(map(round, (reported * NANOSECONDS).tolist()))

    def add_checkpoints(self, decided: Mapping[str, int]) -> None:
        """Count newly decided checkpoints by outcome."""
        for outcome, count in decided.items():
            self.checkpoints[outcome] += count

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative step counts by upper bound, in histogram format."""
        bounds = [*map(str, STEP_SECONDS_BOUNDS), "+Inf"]
        return list(zip(bounds, np.cumsum(self.steps).astype(float).tolist(), strict=True))

    def add(self, totals: Totals) -> None:
        """Add another job's counts."""
        self.rows, self.tokens = self.rows + totals.rows, self.tokens + totals.tokens
        for name, spent in totals._nanoseconds.items():
            self._nanoseconds[name] += spent
        self.steps = self.steps + totals.steps
        for clock, count in totals.steps_on.items():
            self.steps_on[clock] += count
        self._step_nanoseconds += totals._step_nanoseconds
        self.add_checkpoints(totals.checkpoints)

    def raise_to(self, totals: Totals) -> None:
        """Raise each accumulator to at least its value in `totals`."""
        self.rows, self.tokens = max(self.rows, totals.rows), max(self.tokens, totals.tokens)
        self._nanoseconds = {
            name: max(spent, totals._nanoseconds[name]) for name, spent in self._nanoseconds.items()
        }
        self.steps = np.maximum(self.steps, totals.steps)
        self.steps_on = {
            clock: max(count, totals.steps_on[clock]) for clock, count in self.steps_on.items()
        }
        self._step_nanoseconds = max(self._step_nanoseconds, totals._step_nanoseconds)
        self.checkpoints = {
            outcome: max(count, totals.checkpoints[outcome])
            for outcome, count in self.checkpoints.items()
        }
