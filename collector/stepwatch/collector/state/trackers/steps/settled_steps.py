"""Which clock each step of an attempt counts on, decided once: the devices' or the hosts'.

If ranks report device timing, a step is settled when its DEVICE_STEP rows are complete, or when
they will not arrive: all devices have timed a later step, a rank reports the end of its device
timing, or the hosts are `LATE_SECONDS` further. Then the host values count. If no rank has device
timing, or one reports that it has none, the host clock counts at once.

A step with missing ranks waits for them, but not for long (`given_up`). A step counts with its
values at that time, so no counter falls. Steps are settled in order; host rows missing before a
complete step are lost, since a rank reports in order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import DeviceRing, StepRing
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.tracker import Batches, JoinedTracker, TrackedAttempt
from stepwatch.collector.state.trackers.communication.exchanges import Exchanges, stages_known
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.steps.given_up import (
    complete_or_given_up,
    newest_complete,
    newest_given_up,
)
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence, Settled
from stepwatch.collector.state.trackers.steps.rank_history import RankHistory, SettledRanks
from stepwatch.collector.state.trackers.steps.step_history import ON_DEVICE, ON_HOST
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.collector.step_clocks import DEVICE, HOST
from stepwatch.signals.arrays import Integers, Mask, SmallIntegers, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows

LATE_SECONDS = 20.0
"""Seconds without a device row while steps continue, after which device times are considered lost.
A device queue holds a second or two.
"""


class _Group(NamedTuple):
    """New rows in a group with `size` batches; the first `entered` batches are already entered."""

    host: Fresh
    device: Fresh
    size: int
    entered: int = 0

    @classmethod
    def nothing(cls) -> _Group:
        """Return an empty group."""
        return cls(_NOTHING, Fresh.nothing(Kind.DEVICE_STEP), 0)

    def later(self) -> Fresh:
        """Return the host rows not yet entered."""
        return self.host.in_batches(self.entered, self.size)

    def stage(self, attempt: TrackedAttempt) -> SmallIntegers:
        """Return each rank's stage (world,) after the entered batches."""
        return stages_known(attempt, self.entered - 1 if self.size else None)


_NOTHING = Fresh.nothing(Kind.STEP)


class SettledSteps(JoinedTracker):
    """Enters a group's rows in the history and the device lengths, and settles steps.

    Steps before `awaited` are settled; it is None before the first step.
    """

    kinds = frozenset({Kind.STEP, Kind.DEVICE_STEP, Kind.COLLECTIVE, Kind.GROUP})
    """The last two are for the stages that `Exchanges` derives."""
    order = 45

    def __init__(self) -> None:
        self.awaited: int | None = None
        self._ended_ns = 0
        """Latest end of a settled step on any host, wall time."""
        self._received_s = 0.0
        """Newest host row's receive time, Unix seconds; it never falls."""

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Process the group's new rows from `Steps` and `DeviceSteps`.

        If a row may arrive after its step is settled, within the group, the batches are processed
        in two halves, recursively: then the row is late exactly as with single batches.
        """
        steps, devices = attempt.tracker(Steps), attempt.tracker(DeviceSteps)
        host, device = steps.fresh, devices.fresh
        steps.fresh, devices.fresh = Fresh.nothing(Kind.STEP), Fresh.nothing(Kind.DEVICE_STEP)
        if len(host.rows) or len(device.rows):
            self._take(_Group(host, device, len(batches)), (0, len(batches)), attempt)
        attempt.tracker(Exchanges).forget_changes()

    def awaits_devices(self, attempt: TrackedAttempt) -> bool:
        """Return whether steps wait for device rows.

        They do if some rank has a device, and no rank reports that it has none.
        """
        all_timed = attempt.tracker(DeviceTiming).all_timed
        return attempt.tracker(DeviceSteps).ring.world > 0 if all_timed is None else all_timed

    def count(self, attempt: TrackedAttempt) -> int:
        """Return the number of history rows that count now, from the first one on.

        Rows that await their devices do not count yet; on the host clock all rows count.
        """
        history = attempt.tracker(Steps).history
        row_count = len(history.rows)
        if self.awaited is None or not self.awaits_devices(attempt):
            return row_count
        return max(0, min(self.awaited - history.held_from, row_count))

    def give_up(self, attempt: TrackedAttempt) -> None:
        """Settle every step as it is: nothing is awaited any more."""
        rows = self._unsettled(attempt)
        if len(rows):
            timed = self._timed(rows, attempt) & (rows["reported"] > 0)
            self._settle(rows, timed, _Group.nothing(), attempt)

    def _take(self, group: _Group, span: tuple[int, int], attempt: TrackedAttempt) -> None:
        """Enter and settle batches `span[0]` to `span[1] - 1` in the group."""
        first, last = span
        host, device = group.host.in_batches(first, last), group.device.in_batches(first, last)
        if last - first > 1 and (
            self._may_be_late(host, device, span, attempt)
            or self._may_be_far(host, attempt)
            or attempt.tracker(Exchanges).changes_within(first, last)
        ):
            middle = (first + last) // 2
            self._take(group, (first, middle), attempt)
            self._take(group, (middle, last), attempt)
            return
        steps = attempt.tracker(Steps)
        if len(host.rows):
            steps.enter(host)
            self._received_s = max(self._received_s, float(host.received_s.max()))
        if len(device.rows):
            begins = steps.history.first if len(steps.history) else None
            attempt.tracker(DeviceSteps).lengths.add(device, begins)
        self._advance(group._replace(entered=last), attempt)

    def _advance(self, group: _Group, attempt: TrackedAttempt) -> None:
        rows = self._unsettled(attempt)
        due = complete_or_given_up(rows, attempt.world, self._received_s)
        if not due:
            return
        timed = self._timed(rows, attempt) & (rows["reported"] > 0)
        if self.awaits_devices(attempt):
            ends = np.maximum.accumulate(np.maximum(_ends_ns(rows), self._ended_ns))
            waits = (rows["reported"] > 0) & ~timed
            waits &= ends >= ends[due - 1] - LATE_SECONDS * NANOSECONDS
            waits[: np.flatnonzero(timed).max(initial=0)] = False
            due = int(np.argmax(waits[:due])) if waits[:due].any() else due
        self._settle(rows[:due], timed[:due], group, attempt)

    def _settle(self, rows: Rows, timed: Mask, group: _Group, attempt: TrackedAttempt) -> None:
        """Settle the next steps; steps in `timed` (steps,) count with their device values."""
        if not len(rows):
            return
        history, lengths = attempt.tracker(Steps).history, attempt.tracker(DeviceSteps).lengths
        first = history.first if self.awaited is None else max(self.awaited, history.first)
        held_from = self._newest(attempt) - self._reach(attempt) + 1
        self.awaited = first + len(rows)
        self._ended_ns = max(self._ended_ns, int(_ends_ns(rows).max()))
        rows["clock"] = np.where(timed, ON_DEVICE, ON_HOST)
        attempt.totals.add_steps(rows["longest"][~timed], HOST)
        seconds = rows["longest"].astype(np.float64)
        if timed.any():
            seconds[timed] = lengths.rows(first + np.flatnonzero(timed))["longest"]
            attempt.totals.add_steps(seconds[timed], DEVICE)
        on_device, reported = self.awaits_devices(attempt), rows["reported"]
        settled = Settled(
            clock=DEVICE if on_device else HOST,
            steps=np.arange(first, self.awaited),
            seconds=seconds,
            flags=rows["flags"].astype(np.int64),
            timed=timed if on_device else reported > 0,
            stage=group.stage(attempt),
            later=group.later() if (reported < attempt.world).any() else _NOTHING,
            held_from=held_from,
        )
        attempt.tracker(RankEvidence).settle(settled, attempt)
        ends_s = np.minimum(_ends_ns(rows) / NANOSECONDS, rows["received_s"])
        self._keep(settled, ends_s, attempt)

    def _keep(self, settled: Settled, ends_s: Vector, attempt: TrackedAttempt) -> None:
        """Keep the ranks' self time in the settled steps that the rings still hold."""
        hosts = attempt.tracker(Steps).ring
        on_device = settled.clock == DEVICE
        timed_by = attempt.tracker(DeviceSteps).ring if on_device else hosts
        if not 0 < attempt.world == hosts.world == timed_by.world:
            return
        places = np.flatnonzero((settled.steps >= settled.held_from) & settled.timed)
        steps = settled.steps[places]
        held = settled.clock, steps, ends_s[places], timed_by, hosts, settled.later
        attempt.tracker(RankHistory).settle(SettledRanks(*held), attempt.world)

    def _reach(self, attempt: TrackedAttempt) -> int:
        """Return how far behind the newest step all rings still hold every step."""
        rings = (StepRing, DeviceRing) if self.awaits_devices(attempt) else (StepRing,)
        return min(ring.reach_for(attempt.world) for ring in rings)

    def _newest(self, attempt: TrackedAttempt) -> int:
        """Return the newest entered step, or the step before the first one."""
        reported = np.flatnonzero(self._unsettled(attempt)["reported"])
        return self._first_awaited(attempt) + int(reported.max(initial=-1))

    def oldest_kept(self, attempt: TrackedAttempt) -> int | None:
        """Return the oldest step that evidence may still need from the rings.

        None before the first step.
        """
        if not len(attempt.tracker(Steps).history):
            return None
        return max(self._first_awaited(attempt), self._newest(attempt) - self._reach(attempt) + 1)

    def _unsettled(self, attempt: TrackedAttempt) -> Rows:
        """Return a view on the history from the first awaited step on."""
        history = attempt.tracker(Steps).history
        if self.awaited is None:
            return history.rows
        rows: Rows = history.rows[max(0, self.awaited - history.held_from) :]
        return rows

    def _first_awaited(self, attempt: TrackedAttempt) -> int:
        """Return the first unsettled step, also before any was settled."""
        history = attempt.tracker(Steps).history
        return history.first + len(history) - len(self._unsettled(attempt))

    def _timed(self, rows: Rows, attempt: TrackedAttempt) -> Mask:
        """Return which unsettled steps every device timed; none on the host clock."""
        lengths, history = attempt.tracker(DeviceSteps).lengths, attempt.tracker(Steps).history
        if not lengths.any or not self.awaits_devices(attempt):
            return np.zeros(len(rows), dtype=np.bool_)
        device_rows = lengths.rows(
            history.first + np.arange(len(history) - len(rows), len(history))
        )
        return np.asarray((device_rows["ranks"] > 0) & (device_rows["ranks"] >= attempt.world))

    def _may_be_late(
        self, host: Fresh, device: Fresh, span: tuple[int, int], attempt: TrackedAttempt
    ) -> bool:
        """Return whether a step may be settled before one of its rows in `span` arrives."""
        rows, awaited = self._unsettled(attempt), self._first_awaited(attempt)
        due = self._due(host, span, attempt)
        is_late = (due[host.origin - span[0]] >= host.steps) & (host.steps >= awaited)
        if is_late.any() or not len(device.rows) or not self.awaits_devices(attempt):
            return bool(is_late.any())
        ranks = attempt.tracker(DeviceSteps).lengths.rows(device.steps)["ranks"]
        previous = awaited + int(np.flatnonzero(self._timed(rows, attempt)).max(initial=-1))
        timed = newest_complete(device, ranks, span, attempt.world, previous)
        passed = timed[device.origin - span[0]] >= device.steps
        passed |= self._may_be_older(device.steps - awaited, host, rows, awaited)
        is_late = (
            passed & (due[device.origin - span[0]] >= device.steps) & (device.steps >= awaited)
        )
        return bool(is_late.any())

    def _may_be_far(self, host: Fresh, attempt: TrackedAttempt) -> bool:
        """Return whether the last `host` rows may put a step out of evidence's reach.

        A step settled before those rows would still be within reach.
        """
        if not len(host.rows):
            return False
        newest, reach = self._newest(attempt), self._reach(attempt)
        awaited = self._first_awaited(attempt)
        later = max(newest, int(host.steps.max()))
        return later > newest and later - reach >= max(awaited, newest - reach + 1)

    def _due(self, host: Fresh, span: tuple[int, int], attempt: TrackedAttempt) -> Integers:
        """Return the newest step complete or given up, per batches received (batches + 1,)."""
        history, awaited = attempt.tracker(Steps).history, self._first_awaited(attempt)
        rows = self._unsettled(attempt)
        previous = awaited + complete_or_given_up(rows, attempt.world, self._received_s) - 1
        reported = history.rows["reported"][host.steps - history.held_from]
        complete = newest_complete(host, reported, span, attempt.world, previous)
        return np.asarray(
            np.maximum(complete, newest_given_up(host, rows, span, awaited, self._received_s))
        )

    def _may_be_older(self, index: Integers, host: Fresh, rows: Rows, awaited: int) -> Mask:
        """Return whether steps at `index` in `rows` end `LATE_SECONDS` before the newest one.

        `rows` are unsettled; the rows in `host`, which are not yet entered, are included.
        """
        older = np.zeros(len(index), dtype=np.bool_)
        if not len(rows):
            return older
        ends = np.maximum(_ends_ns(rows), self._ended_ns)
        places = host.steps - awaited
        np.maximum.at(ends, places[places >= 0], host.ends_ns[places >= 0])
        ends = np.maximum.accumulate(ends)
        inside = (index >= 0) & (index < len(ends))
        older[inside] = ends[index[inside]] < ends[-1] - LATE_SECONDS * NANOSECONDS
        return older


def _ends_ns(rows: Rows) -> Integers:
    return np.asarray(rows["end_wall_ns"].astype(np.int64))
