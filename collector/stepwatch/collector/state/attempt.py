"""One job attempt: its identity and its trackers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stepwatch.collector.state.claims.rank_claims import RankClaims
from stepwatch.collector.state.claims.waiting import Waiting
from stepwatch.collector.state.exit_codes import ASKED_TO_STOP, UNKNOWN_EXIT
from stepwatch.collector.state.folding.batches import batch_of
from stepwatch.collector.state.registry import discover
from stepwatch.collector.state.step_clock import step_timing
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import (
    MAX_NODES,
    Batch,
    Batches,
    Received,
    TrackedAttempt,
)
from stepwatch.collector.state.trackers.checkpoints import Checkpoint, Checkpoints
from stepwatch.collector.state.trackers.checkpoints_in_flight import CheckpointsInFlight
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.communication.exchanges import stages_known
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.lifecycle import Lifecycle, LifecycleEvents, Schedule
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE, Agents
from stepwatch.collector.state.trackers.ranks import Ranks, RankView
from stepwatch.collector.state.trackers.steps.baseline import Baseline
from stepwatch.collector.state.trackers.steps.done_ranks import (
    done_from,
    expected_ranks,
    unwatched_ranks,
)
from stepwatch.collector.state.trackers.steps.early_baseline import EarlyBaseline
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.collector.state.trackers.steps.step_history import StepHistory
from stepwatch.collector.state.trackers.steps.step_window import DEVICE, StepRing, Window
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.arrays import Integers, SmallIntegers, Vector
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import LifecycleEvent
from stepwatch.signals.wire import Segment

_OF_STEPS = (Steps, DeviceSteps, DeviceTiming, SettledSteps, LifecycleEvents)
"""Trackers that remain of a run once a later run with the same attempt number makes steps."""
MAX_PAST = 1000
"""Maximum number of past runs with one attempt number whose steps are kept; the oldest go first."""
MISSED_FLUSHES = 3
"""An agent that misses this many flushes is stale: one flush may be late, and one lost."""
STOPPING_SECONDS = 30.0
"""Time in seconds that torchrun gives ranks to end after Ctrl-C before it kills them."""


class Attempt(TrackedAttempt):
    """One job attempt, with short names for common tracker lookups.

    `tracker` returns any tracker; a new signal needs no name here.
    """

    def __init__(
        self, number: int, earlier: Attempt | None = None, totals: Totals | None = None
    ) -> None:
        super().__init__(number, totals or Totals(), discover())
        self.earlier = earlier
        """The previous run with the same attempt number, until this one makes a step."""
        self.past: list[Attempt] = []
        """Earlier runs with this number that made steps, oldest first; only their steps remain."""
        self.received_s = 0.0
        self.received_monotonic_s = 0.0
        self.claims, self.waiting = RankClaims(), Waiting()

    def apply(self, segment: Segment, received: Received) -> None:
        """Apply one new segment."""
        self.fold(Batches([batch_of(segment, received)]))

    def fold(self, batches: Batches) -> None:
        """Fold in new batches that `grouping` has put together."""
        self.received_s, self.received_monotonic_s = batches[-1].received
        for batch in batches:
            if batch.node in self.offsets or len(self.offsets) < MAX_NODES:
                self.offsets[batch.node] = batch.to_wall_ns
                self.first_offsets.setdefault(batch.node, batch.to_wall_ns)
        sent = batches
        if not self.is_released:  # a released history stays unchanged
            batches, refused = self.claims.accepted(batches, self.world)
            self.refused_records += refused
            self.grow(self.claims.believed_world(self.world))
        for tracker in self._trackers.values():
            closed = self.is_released and tracker.given_back
            inputs = sent if tracker.of_all_nodes else batches
            if not closed and not tracker.kinds.isdisjoint(inputs.kinds):
                tracker.fold(inputs, self)
        if len(self.step_history):
            self._pass_earlier()
        if self.is_over:
            self.give_up()

    def waits_with(self, batch: Batch) -> bool:
        """Return whether a batch waits until more ranks vouch for the claimed world."""
        if self.world or self.is_released or not self.waiting.takes(batch, self.claims, self):
            return False
        self.received_s, self.received_monotonic_s = batch.received
        return True

    def begins_again(self, batch: Batch) -> bool:
        """Return whether an ended rank starts again in `batch`: a manual, uncounted relaunch."""
        ended = self.ended.keys() | self.ranks.gone
        return bool(ended) and not ended.isdisjoint(self.claims.may_start(batch))

    def restarted(self) -> Attempt:
        """Return an empty attempt with the same number; the newest ended run stays beside it."""
        ended = self if len(self.step_history) else self.earlier
        self.earlier = None
        self.give_up()
        fresh = Attempt(self.number, ended, self.totals)
        fresh.past, self.past = self.past, []
        fresh.tracker(Steps).newest_s = self.newest_s
        return fresh

    def give_up(self) -> None:
        """Settle all incomplete steps as they are."""
        self.tracker(SettledSteps).give_up(self)

    def release(self) -> None:
        """Release the cells; later steps are refused, the step history stays."""
        self.give_up()
        super().release()
        self.claims, self.waiting = RankClaims(), Waiting()
        self._pass_earlier()

    def _pass_earlier(self) -> None:
        """Keep only the previous run's steps."""
        if self.earlier is None:
            return
        self.earlier.keep_steps()
        self.past = [*self.past, self.earlier][-MAX_PAST:]
        self.earlier = None

    def keep_steps(self) -> None:
        """Drop all state except step times, step ends and rank ends."""
        self.tracker(LifecycleEvents).over_s = self.over_s
        super().release()
        self._trackers = {
            kind: tracker if kind in _OF_STEPS else kind()
            for kind, tracker in self._trackers.items()
        }
        self.offsets, self.first_offsets, self.claims = {}, {}, RankClaims()

    @property
    def runs(self) -> list[Attempt]:
        """Previous runs with the same attempt number, oldest first."""
        return self.past if self.earlier is None else [*self.past, self.earlier]

    @property
    def cells(self) -> int:
        """Cell count, including waiting batches and the previous run with the same number."""
        claimed = self.waiting.cells + self.claims.cells
        return super().cells + claimed + (0 if self.earlier is None else self.earlier.cells)

    @property
    def is_over(self) -> bool:
        """Whether all ranks have ended or vanished."""
        ended, vanished = self.ended, self.ranks.gone
        if not 0 < self.world <= len(ended) + len(vanished):
            return False
        return len(ended.keys() | vanished) >= self.world

    @property
    def done(self) -> dict[int, int]:
        """First step not expected from each rank that is done while other ranks continue."""
        return done_from(self, self.received_monotonic_s)

    def expected_ranks(self, steps: Integers) -> Integers:
        """Return the number of ranks that should report each of `steps`: watched and not done."""
        return expected_ranks(steps, self.world - len(self.unwatched), self.done)

    @property
    def unwatched(self) -> frozenset[int]:
        """Ranks that reported nothing while other ranks made steps."""
        return unwatched_ranks(self)

    @property
    def complete_until(self) -> int:
        """Newest step that all expected ranks reported, together with all earlier steps."""
        return self.step_history.complete_until(self.expected_ranks(self.step_history.steps))

    @property
    def stages(self) -> SmallIntegers:
        """Rank stages (world,), -1 while unknown: from rank reports, else from the exchanges."""
        return stages_known(self)

    def window(self, count: int) -> Window:
        """Return the newest `count` steps, on the `step_clock` clock."""
        on_device = step_timing(self).clock == DEVICE
        device = self.tracker(DeviceSteps).ring if on_device else None
        return self.ring.window(count, self.stages, device)

    def staleness(self, now_s: float) -> dict[str, float]:
        """Return the seconds since the last report of each node that should report.

        `now_s` is monotonic. Unreported ranks count as node `UNKNOWN_NODE`, from the first sign
        that all ranks exist: a step, a rank at work or in a collective.
        """
        ranks = self.ranks
        received = ranks.received_by_node([*ranks.gone, *self.ended])
        reported = int(ranks.reported.sum())
        if not reported:
            return {UNKNOWN_NODE: now_s - self.received_monotonic_s}
        views = ranks.views
        silent = sum(rank not in views for rank in self.ended)
        if reported + silent < self.world:
            first_signs_s = self.tracker(Steps).first_received_monotonic_s, ranks.trains_since_s()
            signs_s = [moment for moment in first_signs_s if moment is not None]
            received.update({UNKNOWN_NODE: min(signs_s)} if signs_s else {})
        return {node: now_s - received_s for node, received_s in received.items()}

    def flush_seconds(self, node: str) -> float:
        """Return the seconds between two flushes of a node's agent; 1 s if it reports none."""
        return self.tracker(Agents).flush_seconds(node)

    def stale_after(self, node: str, least_seconds: float) -> float:
        """Return the seconds without a report that make a node stale: several missed flushes."""
        return max(least_seconds, MISSED_FLUSHES * self.flush_seconds(node))

    @property
    def finished(self) -> bool:
        """Whether every watched rank reported that it finished."""
        unwatched = self.unwatched
        if not 0 < self.world <= len(self.ended) + len(unwatched):
            return False
        ranks = (rank for rank in range(self.world) if rank not in unwatched)
        return all(self.ended.get(rank) is LifecycleEvent.FINISH for rank in ranks)

    @property
    def failed(self) -> bool:
        """Whether a rank reported a failure, or vanished without a report.

        After Ctrl-C, only a rank that died before the interrupt has failed.
        """
        ends = self.ended.values()
        if LifecycleEvent.FAILURE in ends:
            return True
        if LifecycleEvent.INTERRUPT not in ends:
            return bool(self.gone) and not self._asked_to_stop
        stopped_at = self.tracker(LifecycleEvents).interrupted_s
        return any(self._died_before(rank, stopped_at) for rank in self.gone)

    @property
    def interrupted(self) -> bool:
        """Whether the attempt was stopped by Ctrl-C or SIGTERM, and no rank failed."""
        stopped = LifecycleEvent.INTERRUPT in self.ended.values() or self._asked_to_stop
        return stopped and not self.failed

    @property
    def _asked_to_stop(self) -> bool:
        """Whether SIGTERM or SIGINT, and no other signal or error, ended the vanished ranks."""
        codes = set(self.ranks.rows["exit_code"][[*self.gone]].tolist())
        return bool(codes & {*ASKED_TO_STOP}) and codes <= {0, *ASKED_TO_STOP}

    def _died_before(self, rank: int, moment: float) -> bool:
        """Return whether the vanished `rank` died before the attempt was stopped.

        `moment` (Unix seconds) is when a rank reported the stop. A rank reports it after unwinding,
        so another rank may have been stopped, and ended, earlier.
        """
        code = int(self.ranks.rows["exit_code"][rank])
        if code in (0, *ASKED_TO_STOP):
            return False
        earlier = STOPPING_SECONDS if code == UNKNOWN_EXIT else 0.0
        return self.gone_at(rank) < moment - earlier

    def gone_at(self, rank: int) -> float:
        """Return the Unix time at which a rank's process ended; NaN while unknown."""
        view = self.states[rank]
        gone_ns, offset = int(view.row["gone_ns"]), self.offsets.get(view.node)
        return (gone_ns + offset) / NANOSECONDS if gone_ns and offset is not None else math.nan

    @property
    def over_s(self) -> float | None:
        """End of the last rank by the original clocks, Unix seconds; None if alive or unseen."""
        events, ranks = self.tracker(LifecycleEvents), self.ranks
        if events.over_s is not None or not self.is_over:
            return events.over_s
        gone_ns = ranks.wall_ns(ranks.rows["gone_ns"], self.first_offsets)
        last_ns = max(events.last_end_ns, int(gone_ns.max(initial=0)))
        return last_ns / NANOSECONDS if last_ns else None

    @property
    def seen_s(self) -> float:
        """Newest agent reading, Unix seconds by the original clock settings; 0 if none."""
        moments = self.ranks.wall_ns(self.ranks.rows["time_ns"], self.first_offsets)
        return float(moments.max(initial=0)) / NANOSECONDS

    @property
    def gone(self) -> set[int]:
        """Ranks whose process vanished before they finished."""
        return self.ranks.gone - self.ended.keys()

    def is_gone(self, rank: int) -> bool:
        """Return whether the process of `rank` vanished before it finished."""
        return rank in self.ranks.gone and rank not in self.ended

    @property
    def ranks(self) -> Ranks:
        """Newest report on each rank."""
        return self.tracker(Ranks)

    @property
    def states(self) -> Mapping[int, RankView]:
        """Newest state of each rank that reported."""
        return self.tracker(Ranks).views

    @property
    def lifecycle(self) -> list[Lifecycle]:
        """Rank starts, ends and resumes, in arrival order."""
        return self.tracker(LifecycleEvents).events

    @property
    def ended(self) -> dict[int, LifecycleEvent]:
        """End event by rank, for ranks that reported one."""
        return self.tracker(LifecycleEvents).ended

    @property
    def began_s(self) -> float:
        """First rank's start, Unix seconds; 0 while unknown."""
        return self.tracker(LifecycleEvents).began_s

    @property
    def allocated_s(self) -> float:
        """Start of the device allocation, Unix seconds; 0 while unknown."""
        return float(self.tracker(LifecycleEvents).allocated_s)

    @property
    def resumed_from(self) -> int | None:
        """Step from which the attempt resumed; None until a rank reports one."""
        return self.tracker(LifecycleEvents).resumed_from

    @property
    def schedule(self) -> Schedule | None:
        """Pipeline schedule; None while unknown."""
        return self.tracker(LifecycleEvents).schedule

    @property
    def step_history(self) -> StepHistory:
        """One row per step, for the attempt's whole life."""
        return self.tracker(Steps).history

    @property
    def ring(self) -> StepRing:
        """Newest steps by rank."""
        return self.tracker(Steps).ring

    @property
    def baseline(self) -> Baseline:
        """Medians of the first steps by rank."""
        return self.tracker(Steps).baseline

    @property
    def early_baseline(self) -> EarlyBaseline:
        """Sums over ranks for the first steps."""
        return self.tracker(Steps).early_baseline

    @property
    def rank_seconds(self) -> dict[str, Vector]:
        """Seconds so far (world,) by step column."""
        return self.tracker(Steps).rank_seconds

    @property
    def newest_s(self) -> float:
        """Newest step's wall time, Unix seconds; 0 before the first."""
        return self.tracker(Steps).newest_s

    @property
    def collective_records(self) -> CollectiveRecords:
        """Newest collectives, and the process groups."""
        return self.tracker(CollectiveRecords)

    @property
    def checkpoints(self) -> dict[int, Checkpoint]:
        """Checkpoints by step."""
        return self.tracker(Checkpoints).known

    @property
    def checkpoints_in_flight(self) -> CheckpointsInFlight:
        """Newest checkpoints by rank."""
        return self.tracker(Checkpoints).in_flight

    @property
    def lost_records(self) -> int:
        """Records lost before they were sent."""
        return self.tracker(Agents).lost_records
