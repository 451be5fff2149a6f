"""Steps of an attempt: the newest as a window, one row each for ever, and its baseline."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.totals import CountedSteps
from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.collector.state.trackers.baseline import Baseline
from stepwatch.collector.state.trackers.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.early_baseline import EarlyBaseline
from stepwatch.collector.state.trackers.step_history import StepHistory
from stepwatch.collector.state.trackers.step_window import COLUMNS, StepRing
from stepwatch.signals.arrays import Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind


class Steps(Tracker):
    """What STEP rows say. `rank_seconds` maps each of `COLUMNS` to seconds so far (world,).

    `newest_s` is the wall time of the newest step, 0 before the first; `first_received_s` the
    collector's monotonic time at which the first came.
    """

    kinds = frozenset({Kind.STEP})
    order = 30

    def __init__(self) -> None:
        self.ring = StepRing(0)
        self.history = StepHistory()
        self.baseline = Baseline()
        self.early_baseline = EarlyBaseline()
        self.rank_seconds: dict[str, Vector] = {}
        self.newest_s = 0.0
        self.first_received_s: float | None = None
        self._counted = CountedSteps()
        self._released = False

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply STEP rows; those that no rank can have made are refused."""
        rows = batch.rows(Kind.STEP)
        if rows is None:
            return
        possible = rows[validation.steps(rows, self.ring.world, batch.to_wall_ns)]
        usable = self.history.make_room(possible)
        attempt.refused_records += len(rows) - len(usable)
        fresh = self.ring.add(usable)
        if not len(fresh):
            return
        if self.first_received_s is None:
            self.first_received_s = batch.received.monotonic_s
        self.history.add(fresh, batch.to_wall_ns)
        attempt.totals.add_rows(fresh)
        self._counted.advance(self.history, attempt.world, attempt.totals)
        calls = attempt.tracker(CollectiveRecords)
        self.baseline.add(fresh, self.history.first, self.ring.world, calls)
        self.early_baseline.add(fresh)
        self.newest_s = self.history.newest_end_ns() / NANOSECONDS
        for name, sums in self.rank_seconds.items():
            np.add.at(sums, fresh["rank"], fresh[f"{name}_ns"] / NANOSECONDS)

    def give_up(self, attempt: TrackedAttempt) -> None:
        """Count the steps that some rank has not reported as they stand."""
        self._counted.give_up(self.history, attempt.totals)

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; what is known stays."""
        if not self._released:
            self.ring = self.ring.grown(world)
        for name in COLUMNS:
            known = self.rank_seconds.get(name, np.zeros(0))
            self.rank_seconds[name] = np.append(known, np.zeros(world - len(known)))

    @property
    def cells(self) -> int:
        """(step, rank) cells of the window, and those of the baseline."""
        return self.ring.cells + self.baseline.cells

    def released(self) -> Steps:
        """The history; steps that still arrive are refused."""
        self.ring, self.baseline = StepRing(0), Baseline()
        self._released = True
        return self
