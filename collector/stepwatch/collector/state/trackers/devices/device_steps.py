"""An attempt's steps on the device clock, from DEVICE_STEP rows.

A row arrives seconds after the STEP row for the same rank and step, or never.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.evidence.step_window import (
    COLUMNS,
    DEVICE_COLUMNS,
    IDLE,
    DeviceRing,
    seconds_of,
)
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.devices.device_collectives import (
    DeviceCalls,
    DeviceCollectives,
)
from stepwatch.collector.state.trackers.devices.device_lengths import DeviceLengths
from stepwatch.collector.state.trackers.steps.baseline import Baseline
from stepwatch.collector.state.trackers.steps.early_baseline import EarlyBaseline
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Mask, Vector
from stepwatch.signals.clock import MAX_DURATION_NS, NANOSECONDS
from stepwatch.signals.records import DeviceFlag, Kind
from stepwatch.signals.wire import Rows

STEPS_AHEAD = 16
"""A device row follows its rank's STEP row: a step far beyond the newest is invalid."""
_MAX_SECONDS = MAX_DURATION_NS / NANOSECONDS


class DeviceSteps(JoinedTracker):
    """Facts from DEVICE_STEP rows; empty before the first.

    `rank_seconds` maps each of `COLUMNS` and `IDLE` to seconds so far (world,). `newest_s` is the
    newest row's wall time, 0 before the first, `received_monotonic_s` the collector's monotonic
    time for the newest arrival. `in_part` counts rows with untimed boundaries: only their length is
    known.
    """

    kinds = frozenset({Kind.DEVICE_STEP})
    order = 40

    def __init__(self) -> None:
        self.ring = DeviceRing(0)
        self.lengths = DeviceLengths()
        self.baseline = Baseline()
        self.early_baseline = EarlyBaseline()
        self.rank_seconds: dict[str, Vector] = {}
        self.newest_s = 0.0
        self.received_monotonic_s = 0.0
        self.in_part = 0
        self.fresh = Fresh.nothing(Kind.DEVICE_STEP)
        """New rows in the current group; `settled_steps` takes them."""
        self._released = False

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in DEVICE_STEP rows; invalid rows are refused."""
        rows, origin = batches.rows(Kind.DEVICE_STEP), batches.table(Kind.DEVICE_STEP).origin
        if rows is None:
            return
        steps = attempt.tracker(Steps)
        world = 0 if self._released else attempt.world
        possible = validation.steps(rows, world, batches.to_wall_ns[origin])
        possible &= _possible(rows, steps.ring.newest + STEPS_AHEAD)
        attempt.refused_records += len(rows) - int(possible.sum())
        usable = np.flatnonzero(possible)
        if not len(usable):
            return
        self.received_monotonic_s = float(batches.received_monotonic_s[origin[usable[-1]]])
        self._make_room(world)
        rows, origin = chosen(rows, usable), origin[usable]
        is_whole = _fully_timed(rows)
        self.in_part += len(rows) - int(is_whole.sum())
        new = self.ring.add_all(_without_parts(rows, ~is_whole), origin)
        origin = origin[new]
        self.fresh = Fresh.from_batches(chosen(rows, new), origin, batches, attempt)
        self._sum_up(chosen(rows, new[is_whole[new]]), steps.history.first, attempt)
        self.newest_s = max(self.newest_s, int(self.fresh.ends_ns.max(initial=0)) / NANOSECONDS)

    def _sum_up(self, fresh: Rows, first: int, attempt: TrackedAttempt) -> None:
        """Add fully timed rows to the baselines and the sums by rank."""
        calls = DeviceCalls(attempt.tracker(CollectiveRecords), attempt.tracker(DeviceCollectives))
        self.baseline.add(fresh, first, self.ring.world, calls)
        self.early_baseline.add(fresh)
        for name, sums in self.rank_seconds.items():
            np.add.at(sums, fresh["rank"], np.nan_to_num(seconds_of(fresh, name)))

    def resize(self, world: int) -> None:
        """Make room for `world` ranks, once there are rows; existing values stay."""
        if self.ring.world and not self._released:
            self._make_room(world)

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return self.ring.cells + self.baseline.cells

    def released(self) -> DeviceSteps:
        """Keep only the step lengths; later rows are refused."""
        self.ring, self.baseline = DeviceRing(0), self.baseline.released()
        self._released = True
        return self

    def _make_room(self, world: int) -> None:
        if self.ring.world >= world:
            return
        self.ring = self.ring.grown(world)
        for name in (*COLUMNS, *IDLE):
            sums = self.rank_seconds.get(name, np.zeros(0))
            self.rank_seconds[name] = np.append(sums, np.zeros(world - len(sums)))


def _possible(rows: Rows, last_step: int) -> Mask:
    """Return the rows with a valid step and valid durations; NaN is unknown."""
    possible: Mask = np.asarray(rows["step"] <= last_step)
    for name in DEVICE_COLUMNS:
        seconds = seconds_of(rows, name)
        possible &= np.isnan(seconds) | ((seconds >= 0) & (seconds <= _MAX_SECONDS))
    return np.asarray(possible & ~np.isnan(rows["duration_seconds"]))


def _without_parts(rows: Rows, in_part: Mask) -> Rows:
    """Return the rows; rows `in_part` keep only the length.

    A phase in them may include another phase's time.
    """
    if in_part.any():
        rows = rows.copy()
        for name in (*COLUMNS[1:], *IDLE):
            rows[f"{name}_seconds"][in_part] = np.nan
    return rows


def _fully_timed(rows: Rows) -> Mask:
    """Return the rows with all boundaries timed: only then a phase excludes other phases' time."""
    is_whole: Mask = np.asarray(rows["flags"] & DeviceFlag.INCOMPLETE == 0)
    for name in COLUMNS:
        is_whole &= ~np.isnan(seconds_of(rows, name))
    return is_whole
