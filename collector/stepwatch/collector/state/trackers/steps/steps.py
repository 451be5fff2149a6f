"""An attempt's steps: the newest as a window, one row each for ever, and its baseline."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.evidence.step_window import COLUMNS, StepRing
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.steps.baseline import Baseline
from stepwatch.collector.state.trackers.steps.early_baseline import EarlyBaseline
from stepwatch.collector.state.trackers.steps.step_history import StepHistory
from stepwatch.collector.state.trackers.steps.usual_pauses import UsualPauses
from stepwatch.signals.arrays import Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind


class Steps(JoinedTracker):
    """Facts from STEP rows.

    `settled_steps` enters them in `history`, together with the device rows. `newest_s` is the
    newest step's wall time, 0 before the first, `first_received_monotonic_s` the collector's
    monotonic time for the first arrival.
    """

    kinds = frozenset({Kind.STEP})
    order = 30

    def __init__(self) -> None:
        self.ring = StepRing(0)
        self.history = StepHistory()
        self.baseline = Baseline()
        self.early_baseline = EarlyBaseline()
        self.pauses = UsualPauses()
        self._rank_nanoseconds = {name: np.zeros(0, dtype=np.int64) for name in COLUMNS}
        self.newest_s = 0.0
        self.first_received_monotonic_s: float | None = None
        self.fresh = Fresh.nothing(Kind.STEP)
        """New rows in the current group; `settled_steps` takes them."""
        self._released = False

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in STEP rows; invalid rows are refused."""
        rows, origin = batches.rows(Kind.STEP), batches.table(Kind.STEP).origin
        if rows is None:
            return
        to_wall_ns = batches.to_wall_ns[origin]
        possible = validation.steps(rows, self.ring.world, to_wall_ns)
        usable = possible.copy()
        usable[possible] = self.history.room_for(chosen(rows, possible))
        attempt.refused_records += len(rows) - int(usable.sum())
        rows, origin = chosen(rows, usable), origin[usable]
        new = self.ring.add_all(rows, origin)
        if not len(new):
            return
        fresh, origin = chosen(rows, new), origin[new]
        if self.first_received_monotonic_s is None:
            self.first_received_monotonic_s = float(batches.received_monotonic_s[origin[0]])
        attempt.totals.add_rows(fresh)
        self.fresh = Fresh.from_batches(fresh, origin, batches, attempt)
        calls = attempt.tracker(CollectiveRecords)
        self.baseline.add(fresh, self.history.first, self.ring.world, calls)
        self.early_baseline.add(fresh)
        self.pauses.add(fresh)
        rank = fresh["rank"].astype(np.int64)
        for name, sums in self._rank_nanoseconds.items():
            np.add.at(sums, rank, fresh[f"{name}_ns"].astype(np.int64))

    def enter(self, rows: Fresh) -> None:
        """Enter rows in the history."""
        self.history.add(rows.rows, rows.to_wall_ns, rows.set_ns, rows.received_s)
        self.newest_s = self.history.newest_end_ns() / NANOSECONDS

    @property
    def rank_seconds(self) -> dict[str, Vector]:
        """Seconds so far (world,) by step column."""
        return {name: spent / NANOSECONDS for name, spent in self._rank_nanoseconds.items()}

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; existing values stay."""
        if not self._released:
            self.ring = self.ring.grown(world)
        more = np.zeros(world - len(self._rank_nanoseconds["duration"]), dtype=np.int64)
        for name, sums in self._rank_nanoseconds.items():
            self._rank_nanoseconds[name] = np.append(sums, more)

    @property
    def cells(self) -> int:
        """(step, rank) cell count in the window and the baseline."""
        return self.ring.cells + self.baseline.cells

    def released(self) -> Steps:
        """Keep the history and the first steps' facts; later steps are refused."""
        self.ring, self.baseline = StepRing(0), self.baseline.released()
        self._released = True
        return self
