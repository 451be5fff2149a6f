"""What the counters of a job export: accumulators that only rise, whatever its state forgets.

Attempts are replaced, released and evicted, and a late rank changes what is known of a step. So
nothing here is derived from state that may change: a row counts when it is stored, a step when it
is complete or given up, a checkpoint when its outcome is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepwatch.collector.state.folding.sums import whole_sum
from stepwatch.collector.state.trackers.step_history import StepHistory
from stepwatch.collector.state.trackers.step_window import COLUMNS
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.wire import Rows

STEP_SECONDS_BOUNDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0)
"""Upper bounds of step time in seconds, from a debug model to a long pipeline step."""
GIVE_UP_STEPS = 64
"""A step that some rank has not reported counts as it stands once so many newer steps exist."""
VERIFIED, FAILED = "verified", "failed"
"""Outcomes of a checkpoint; a verified one that is rejected later counts as failed, too."""


class Totals:
    """Accumulators of one job over all its attempts.

    `rows` and `tokens` count STEP rows and their tokens; `steps` (bounds + 1,) counts steps by the
    duration of their slowest rank, the last entry those above every bound; `checkpoints` counts by
    outcome. Times are summed in whole nanoseconds: the sum is the same in whatever parts it is
    taken, so a restart continues exactly where it was.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.tokens = 0
        self._nanoseconds = dict.fromkeys(COLUMNS, 0)
        self.steps = np.zeros(len(STEP_SECONDS_BOUNDS) + 1, dtype=np.int64)
        self._step_nanoseconds = 0
        self.checkpoints = dict.fromkeys((VERIFIED, FAILED), 0)

    @property
    def seconds(self) -> dict[str, float]:
        """Each of `COLUMNS` summed over all STEP rows."""
        return {name: spent / NANOSECONDS for name, spent in self._nanoseconds.items()}

    @property
    def step_seconds(self) -> float:
        """Sum of the durations of the steps counted."""
        return self._step_nanoseconds / NANOSECONDS

    def add_rows(self, rows: Rows) -> None:
        """Count STEP rows, each (rank, step) once."""
        self.rows += len(rows)
        self.tokens += int(rows["tokens"].sum(dtype=np.uint64))
        for name in COLUMNS:
            self._nanoseconds[name] += whole_sum(rows[f"{name}_ns"])

    def add_steps(self, durations: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        """Count steps by the seconds of their slowest rank; 0 is a step that no rank reported."""
        known = durations[durations > 0]
        places = np.searchsorted(STEP_SECONDS_BOUNDS, known)  # a bound itself lies in its bucket
        self.steps += np.bincount(places, minlength=len(self.steps))
        self._step_nanoseconds += sum(map(round, (known * NANOSECONDS).tolist()))

    def add_checkpoints(self, decided: Mapping[str, int]) -> None:
        """Count checkpoints whose outcome was decided just now."""
        for outcome, count in decided.items():
            self.checkpoints[outcome] += count

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts of steps by upper bound, as a histogram exports them."""
        bounds = [*map(str, STEP_SECONDS_BOUNDS), "+Inf"]
        return list(zip(bounds, np.cumsum(self.steps).astype(float).tolist(), strict=True))

    def raise_to(self, other: Totals) -> None:
        """Make no accumulator lower than that of `other`."""
        self.rows, self.tokens = max(self.rows, other.rows), max(self.tokens, other.tokens)
        self._nanoseconds = {
            name: max(spent, other._nanoseconds[name]) for name, spent in self._nanoseconds.items()
        }
        self.steps = np.maximum(self.steps, other.steps)
        self._step_nanoseconds = max(self._step_nanoseconds, other._step_nanoseconds)
        self.checkpoints = {
            outcome: max(count, other.checkpoints[outcome])
            for outcome, count in self.checkpoints.items()
        }


class CountedSteps:
    """Which steps of one attempt its job's totals hold: all before the first that is awaited."""

    def __init__(self) -> None:
        self._awaited: int | None = None

    def advance(self, history: StepHistory, world: int, totals: Totals) -> None:
        """Count steps up to the newest that `world` ranks reported, and those given up.

        A rank reports its steps in order, so what is missing before a complete step is lost.
        """
        reported = self._rows(history)["reported"]
        complete, known = np.flatnonzero(reported >= world), np.flatnonzero(reported)
        due = int(complete[-1]) + 1 if len(complete) else 0
        if len(known) > GIVE_UP_STEPS:
            due = max(due, int(known[-GIVE_UP_STEPS - 1]) + 1)
        self._count(history, due, totals)

    def is_late(self, history: StepHistory, steps: Integers, origin: Integers, world: int) -> Mask:
        """Rows (rows,) that may come once their step is counted, in the middle of one call.

        `steps` and `origin` are step and batch of rows that `history` does not hold yet, batch by
        batch. Two of two ranks, batches 0, 0, 1: steps 5, 5, 4 -> the last is late, as 5 is
        complete with batch 0. A row is late too if so many newer steps may exist before it.
        """
        order = np.argsort(steps, kind="stable")
        numbers, firsts, counts = np.unique(steps[order], return_index=True, return_counts=True)
        missing = world - history.rows["reported"][numbers - history.first].astype(np.int64)
        complete = (missing > 0) & (missing <= counts)
        completing = order[(firsts + missing - 1)[complete]]
        done = np.full(int(origin[-1]) + 2, -1, dtype=np.int64)
        np.maximum.at(done, origin[completing] + 1, numbers[complete])
        awaited = history.first if self._awaited is None else self._awaited
        known = np.flatnonzero(self._rows(history)["reported"])
        seen = np.full(len(done), awaited + int(known.max(initial=0)), dtype=np.int64)
        np.maximum.at(seen, origin + 1, steps)
        done, seen = np.maximum.accumulate(done), np.maximum.accumulate(seen)
        late = (done[origin] >= steps) | (seen[origin] - steps >= GIVE_UP_STEPS)
        return np.asarray(late & (steps >= awaited))

    def give_up(self, history: StepHistory, totals: Totals) -> None:
        """Count every step as it stands: no rank is awaited any more."""
        self._count(history, len(self._rows(history)), totals)

    def _rows(self, history: StepHistory) -> Rows:
        if self._awaited is None:
            return history.rows
        found: Rows = history.rows[max(0, self._awaited - history.first) :]
        return found

    def _count(self, history: StepHistory, due: int, totals: Totals) -> None:
        if not due:
            return
        rows = self._rows(history)
        totals.add_steps(rows["longest"][:due])
        self._awaited = history.first + len(history) - len(rows) + due
