"""How many batches can be folded together with the same result as one by one.

Trackers read each other, so a group ends where a batch could change another tracker's view of the
batches beside it: the world grows, the last rank ends, the history begins earlier, the baseline
closes. These events are rare. If only the trackers can decide a case (is the row new?), the group
ends: a group that is too small costs time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import DeviceRing, StepRing
from stepwatch.collector.state.folding.batches import Batches, Table
from stepwatch.collector.state.tracker import MAX_WORLD
from stepwatch.collector.state.trackers.communication.microbatches import STEPS_AHEAD
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.records import ENDS, Kind, LifecycleEvent, ProcessState

_NO_STEP = 1 << 40
"""Above any step number, which has 32 bits."""


_NO_EVENT = np.zeros(0, dtype=np.bool_)


class Grouping:
    """Per-batch facts that decide group boundaries; arrays (batches,)."""

    def __init__(self, batches: Batches) -> None:
        steps, states = batches.table(Kind.STEP), batches.table(Kind.RANK_STATE)
        events = batches.table(Kind.LIFECYCLE)
        self._step_rows = steps.counts
        self._first = _least(steps, "step", _NO_STEP)
        self._last = _greatest(steps, "step")
        self._microbatch = _greatest(batches.table(Kind.MICROBATCH), "step")
        devices = batches.table(Kind.DEVICE_STEP)
        self._have_devices = Kind.DEVICE_STEP in batches.kinds
        self._device_rows = devices.counts
        self._device_first = _least(devices, "step", _NO_STEP)
        self._device_last = _greatest(devices, "step")
        possible = np.where(states.rows["world"] <= MAX_WORLD, states.rows["world"], 0)
        started = events.rows["event"] == LifecycleEvent.START
        claims = np.where(started, events.rows["value"], 0)
        self._world = np.maximum(
            _reduced(np.maximum, states, possible, 0), _reduced(np.maximum, events, claims, 0)
        )
        self._starts = _marked_batches(events, started)
        self._timing = _marked_batches(events, events.rows["event"] == LifecycleEvent.DEVICE_TIMING)
        self._ends = _Ends.from_tables(events, states)
        self._events = events.counts > 0
        self._reports = _Reports.from_batches(batches)
        self._saves = batches.table(Kind.CHECKPOINT).counts > 0

    def size(self, start: int, attempt: Attempt) -> int:
        """Return how many batches from `start` on can be folded together into `attempt`."""
        singles = self._singles(start, attempt)
        if singles[0]:
            return 1
        begins = singles | self._begins(start, attempt)
        ends = self._closes(start, attempt)
        begins[0] = False
        ends[:-1] |= begins[1:]
        return int(np.argmax(ends)) + 1 if ends.any() else len(ends)

    def _singles(self, start: int, attempt: Attempt) -> Mask:
        """Return the batches that must be folded separately.

        They size arrays, may begin another run, or change the rank arrangement. In a run that is
        over, every batch with steps is separate, because its steps settle after each batch.
        """
        history = attempt.tracker(Steps).history
        singles = history.moves(self._first[start:], self._last[start:])
        singles |= self._world[start:] > attempt.world
        if attempt.lifecycle.ended or attempt.ranks.gone:
            singles |= self._starts[start:]
        if attempt.outcome.is_over:
            singles |= (self._step_rows[start:] > 0) | (self._device_rows[start:] > 0)
        devices = attempt.tracker(DeviceSteps).ring
        if attempt.tracker(DeviceTiming).all_timed is None and not devices.world:
            singles |= self._device_rows[start:] > 0  # the first ones show that there are devices
        return singles | self._reports.arrange(start, attempt)

    def _begins(self, start: int, attempt: Attempt) -> Mask:
        """Return the batches that cannot follow the batches since `start`.

        Their steps share ring slots with each other or with a step that evidence may still take, or
        a rank reports its device timing, or a rank starts after an end or after a checkpoint, whose
        validity depends on the start time.
        """
        saved = np.logical_or.accumulate(self._saves[start:])
        begins: Mask = (self._events[start:] & saved) | self._timing[start:]
        begins[1:] |= self._starts[start + 1 :] & np.logical_or.accumulate(
            self._ends.has_ends[start:-1]
        )
        oldest = attempt.tracker(SettledSteps).oldest_kept(attempt)
        hosts = self._first, self._last, StepRing
        devices = self._device_first, self._device_last, DeviceRing
        for first, last, ring in (hosts, devices) if self._have_devices else (hosts,):
            low = np.minimum.accumulate(first[start:])
            high = np.maximum.accumulate(last[start:])
            begins |= high - low >= ring.depth_for(attempt.world)
            if oldest is not None:
                begins |= high - oldest >= ring.depth_for(attempt.world)
        return begins

    def _closes(self, start: int, attempt: Attempt) -> Mask:
        """Return the batches that no batch may follow.

        All ranks have ended, the baseline may close, or a sampled step is far ahead.
        """
        steps = attempt.tracker(Steps)
        closes = np.zeros(len(self._first) - start, dtype=np.bool_)
        if not attempt.outcome.is_over:
            ended = attempt.lifecycle.ended.keys() | attempt.ranks.gone
            closes |= self._ends.complete(start, ended, attempt.world)
        closes |= self._microbatch[start:] > steps.ring.newest + STEPS_AHEAD
        closes |= steps.baseline.may_close(
            self._first[start:] - steps.history.first,
            self._last[start:] - steps.history.first,
            self._step_rows[start:],
            attempt.world,
        )
        if not self._have_devices:
            return closes
        closes |= self._device_last[start:] > steps.ring.newest + STEPS_AHEAD
        closes |= attempt.tracker(DeviceSteps).baseline.may_close(
            self._device_first[start:] - steps.history.first,
            self._device_last[start:] - steps.history.first,
            self._device_rows[start:],
            attempt.world,
        )
        return closes


class _Ends(NamedTuple):
    """Ranks that ended or vanished, each with its batch: arrays (ends,), in batch order.

    `has_ends` (batches,) marks batches with such ranks.
    """

    rank: Integers
    batch: Integers
    has_ends: Mask

    @classmethod
    def from_tables(cls, events: Table, states: Table) -> _Ends:
        """Return the ends in LIFECYCLE and RANK_STATE rows."""
        ended = np.isin(events.rows["event"], ENDS) if len(events.rows) else _NO_EVENT
        vanished = states.rows["process_state"] == ProcessState.GONE
        if not (ended.any() or vanished.any()):
            nothing = np.zeros(0, dtype=np.int64)
            return cls(nothing, nothing, np.zeros(len(events.counts), dtype=np.bool_))
        rank = np.append(events.rows["rank"][ended], states.rows["rank"][vanished]).astype(np.int64)
        batch = np.append(events.origin[ended], states.origin[vanished])
        order = np.argsort(batch, kind="stable")
        return cls(
            rank[order],
            batch[order],
            _marked_batches(events, ended) | _marked_batches(states, vanished),
        )

    def complete(self, start: int, already_ended: Set[int], world: int) -> Mask:
        """Batches from `start` on by which `world` ranks may have ended.

        `already_ended` holds ranks that ended earlier. World of 3, rank 0 already ended, batches
        with ranks 0; 1; none; 1 and 2 -> only the last.
        """
        completing = self.has_ends[start:].copy()
        if not completing.any():  # nearly always
            return completing
        since = self.batch >= start
        ranks, first = np.unique(self.rank[since], return_index=True)
        fresh = first[~np.isin(ranks, [*already_ended])]
        by_batch = np.bincount(self.batch[since][fresh] - start, minlength=len(completing))
        completing &= len(already_ended) + np.cumsum(by_batch) >= world
        return completing


class _Reports(NamedTuple):
    """RANK_STATE rows in batch order.

    `rank`, `stage` and `batch` have shape (rows,), `starts` (batches + 1,) is each batch's first
    row, `nodes` the node name per batch.
    """

    rank: Integers
    stage: Integers
    batch: Integers
    starts: Integers
    nodes: list[str]

    @classmethod
    def from_batches(cls, batches: Batches) -> _Reports:
        """Return the reports in a run of batches."""
        table = batches.table(Kind.RANK_STATE)
        rank, stage = (table.rows[name].astype(np.int64) for name in ("rank", "stage"))
        return cls(rank, stage, table.origin, table.starts, [batch.node for batch in batches])

    def arrange(self, start: int, attempt: Attempt) -> Mask:
        """Return the batches (from `start` on,) that change the arrangement used by evidence.

        They move ranks to other nodes or stages, or complete the first report from every rank.
        """
        rearranged = np.zeros(len(self.nodes) - start, dtype=np.bool_)
        low, ranks = int(self.starts[start]), attempt.ranks
        inside = low + np.flatnonzero((self.rank[low:] >= 0) & (self.rank[low:] < attempt.world))
        rank, batch = self.rank[inside], self.batch[inside] - start
        reported = ranks.reported
        if not reported.all():
            new, first = np.unique(rank, return_index=True)
            by_batch = np.bincount(batch[first[~reported[new]]], minlength=len(rearranged))
            all_by = reported.sum() + np.cumsum(by_batch) >= attempt.world
            rearranged[np.argmax(all_by)] = all_by.any()
            return rearranged
        node = ranks.nodes.lookup(self.nodes[start:])
        moved = ranks.node_at[rank] != node[batch]
        moved |= ranks.stage[rank] != self.stage[inside]
        rearranged[batch[moved]] = True
        return rearranged


def _least(table: Table, name: str, empty: int) -> Integers:
    return _reduced(np.minimum, table, table.rows[name], empty)


def _greatest(table: Table, name: str) -> Integers:
    return _reduced(np.maximum, table, table.rows[name], -1)


def _marked_batches(table: Table, marked: Mask) -> Mask:
    return _reduced(np.maximum, table, marked, 0) > 0


def _reduced(how: np.ufunc, table: Table, values: np.ndarray, empty: int) -> Integers:
    """Reduce `values` (rows,) per batch; `empty` for a batch without rows.

    `reduceat` returns an element for an empty part, so only other parts are passed: counts 2, 0, 1
    = starts 0, 2, 2, 3 -> reduceat at 0 and 2 -> results at 0 and 2, empty at 1.
    """
    reduced = np.full(len(table.starts) - 1, empty, dtype=np.int64)
    if len(values):
        filled = table.counts > 0
        reduced[filled] = how.reduceat(values.astype(np.int64), table.starts[:-1][filled])
    return reduced
