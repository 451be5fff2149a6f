"""One attempt of a job: its identity, and what its trackers know."""

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
"""What is left of a run once another one of its number makes steps."""
MAX_PAST = 1000
"""Runs of one number of which the steps are kept; of more than these the oldest are forgotten."""
MISSED_FLUSHES = 3
"""An agent that misses so many flushes is stale; one of them may be late, and one lost."""
STOPPING_SECONDS = 30.0
"""How long torchrun lets ranks end after Ctrl-C before it kills them."""


class Attempt(TrackedAttempt):
    """One attempt of a job, and short names for what most readers want of its trackers.

    `tracker` gives any of them; a new signal needs no name here.
    """

    def __init__(
        self, number: int, earlier: Attempt | None = None, totals: Totals | None = None
    ) -> None:
        super().__init__(number, totals or Totals(), discover())
        self.earlier = earlier
        """The run of the same number before it, until this one makes a step."""
        self.past: list[Attempt] = []
        """Runs of the same number that made steps before that, oldest first: only these are left of
        them."""
        self.received_s = 0.0
        self.received_monotonic_s = 0.0
        self.claims, self.waiting = RankClaims(), Waiting()

    def apply(self, segment: Segment, received: Received) -> None:
        """Apply one segment that was not seen before."""
        self.fold(Batches([batch_of(segment, received)]))

    def fold(self, batches: Batches) -> None:
        """Fold in batches that were not seen before, which `grouping` puts together."""
        self.received_s, self.received_monotonic_s = batches[-1].received
        for batch in batches:
            if batch.node in self.offsets or len(self.offsets) < MAX_NODES:
                self.offsets[batch.node] = batch.to_wall_ns
                self.first_offsets.setdefault(batch.node, batch.to_wall_ns)
        sent = batches
        if not self.is_released:  # then its history stays as it is, whoever writes
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
        """Whether a batch waits until more ranks vouch for the world that is claimed."""
        if self.world or self.is_released or not self.waiting.takes(batch, self.claims, self):
            return False
        self.received_s, self.received_monotonic_s = batch.received
        return True

    def begins_again(self, batch: Batch) -> bool:
        """Whether a rank that had ended starts in `batch`: the job was launched again by hand,
        which no launcher counts."""
        ended = self.ended.keys() | self.ranks.gone
        return bool(ended) and not ended.isdisjoint(self.claims.may_start(batch))

    def restarted(self) -> Attempt:
        """An attempt of the same number that knows nothing; what ended last stays beside it."""
        ended = self if len(self.step_history) else self.earlier
        self.earlier = None
        self.give_up()
        fresh = Attempt(self.number, ended, self.totals)
        fresh.past, self.past = self.past, []
        fresh.tracker(Steps).newest_s = self.newest_s
        return fresh

    def give_up(self) -> None:
        """Count the steps of which something is still missing as they stand."""
        self.tracker(SettledSteps).give_up(self)

    def release(self) -> None:
        """Give cells back; steps that still arrive are refused, the step history stays."""
        self.give_up()
        super().release()
        self.claims, self.waiting = RankClaims(), Waiting()
        self._pass_earlier()

    def _pass_earlier(self) -> None:
        """Keep the steps of the run before it, and nothing else of it."""
        if self.earlier is None:
            return
        self.earlier.keep_steps()
        self.past = [*self.past, self.earlier][-MAX_PAST:]
        self.earlier = None

    def keep_steps(self) -> None:
        """Drop all but what says when its steps and its ranks ended, and how long steps were."""
        self.tracker(LifecycleEvents).over_s = self.over_s
        super().release()
        self._trackers = {
            kind: tracker if kind in _OF_STEPS else kind()
            for kind, tracker in self._trackers.items()
        }
        self.offsets, self.first_offsets, self.claims = {}, {}, RankClaims()

    @property
    def runs(self) -> list[Attempt]:
        """Runs of the same number before it, oldest first."""
        return self.past if self.earlier is None else [*self.past, self.earlier]

    @property
    def cells(self) -> int:
        """Cells held, also by what waits and by the run of the same number before it."""
        claimed = self.waiting.cells + self.claims.cells
        return super().cells + claimed + (0 if self.earlier is None else self.earlier.cells)

    @property
    def is_over(self) -> bool:
        """Whether every rank ended or vanished."""
        ended, vanished = self.ended, self.ranks.gone
        if not 0 < self.world <= len(ended) + len(vanished):
            return False
        return len(ended.keys() | vanished) >= self.world

    @property
    def done(self) -> dict[int, int]:
        """The first step that is not expected of each rank that is done while others go on."""
        return done_from(self, self.received_monotonic_s)

    def expected_ranks(self, steps: Integers) -> Integers:
        """How many ranks should report each of `steps`: those that are watched, and not done."""
        return expected_ranks(steps, self.world - len(self.unwatched), self.done)

    @property
    def unwatched(self) -> frozenset[int]:
        """Ranks that never reported anything while others made steps."""
        return unwatched_ranks(self)

    @property
    def complete_until(self) -> int:
        """Newest step that every rank reported of which it is expected, as all steps before it."""
        return self.step_history.complete_until(self.expected_ranks(self.step_history.steps))

    @property
    def stages(self) -> SmallIntegers:
        """Pipeline stage of each rank (world,), -1 while unknown: as the ranks report it, or where
        none does, as their exchanges show it."""
        return stages_known(self)

    def window(self, count: int) -> Window:
        """The newest `count` steps, on the clock of `step_clock`."""
        on_device = step_timing(self).clock == DEVICE
        device = self.tracker(DeviceSteps).ring if on_device else None
        return self.ring.window(count, self.stages, device)

    def staleness(self, now_s: float) -> dict[str, float]:
        """Seconds since each node was received from, at monotonic `now_s`, while it should report.

        Ranks that never reported count as node `UNKNOWN_NODE` from the moment on that shows that
        they are there: a step, or a rank at work or inside a collective, for which all have met.
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
        """Seconds between two flushes of a node's agent; 1 s for one that does not say."""
        return self.tracker(Agents).flush_seconds(node)

    def stale_after(self, node: str, least_seconds: float) -> float:
        """Seconds without a report that make a node stale: so many of its flushes are missing."""
        return max(least_seconds, MISSED_FLUSHES * self.flush_seconds(node))

    @property
    def finished(self) -> bool:
        """Whether every rank that is watched reported that it reached the end."""
        unwatched = self.unwatched
        if not 0 < self.world <= len(self.ended) + len(unwatched):
            return False
        ranks = (rank for rank in range(self.world) if rank not in unwatched)
        return all(self.ended.get(rank) is LifecycleEvent.FINISH for rank in ranks)

    @property
    def failed(self) -> bool:
        """Whether a rank reported that it failed, or vanished without a report.

        Of an attempt that Ctrl-C ended, only a rank that died before has failed.
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
        """Whether it was stopped on request, by Ctrl-C or SIGTERM, and no rank failed."""
        stopped = LifecycleEvent.INTERRUPT in self.ended.values() or self._asked_to_stop
        return stopped and not self.failed

    @property
    def _asked_to_stop(self) -> bool:
        """Whether SIGTERM or SIGINT ended the ranks that vanished, and nothing else any of them."""
        codes = set(self.ranks.rows["exit_code"][[*self.gone]].tolist())
        return bool(codes & {*ASKED_TO_STOP}) and codes <= {0, *ASKED_TO_STOP}

    def _died_before(self, rank: int, moment: float) -> bool:
        """Whether `rank`, which is gone, died before somebody stopped the attempt.

        `moment` (Unix seconds) is when a rank reported so, which it does when it has unwound:
        another one may have been stopped, and gone, before that.
        """
        code = int(self.ranks.rows["exit_code"][rank])
        if code in (0, *ASKED_TO_STOP):
            return False
        earlier = STOPPING_SECONDS if code == UNKNOWN_EXIT else 0.0
        return self.gone_at(rank) < moment - earlier

    def gone_at(self, rank: int) -> float:
        """When the process of a rank that reported ended, Unix seconds; NaN while unknown."""
        view = self.states[rank]
        gone_ns, offset = int(view.row["gone_ns"]), self.offsets.get(view.node)
        return (gone_ns + offset) / NANOSECONDS if gone_ns and offset is not None else math.nan

    @property
    def over_s(self) -> float | None:
        """When the last rank ended, Unix seconds by clocks as they were set at first; None while
        one of them lives, or where nobody saw it."""
        events, ranks = self.tracker(LifecycleEvents), self.ranks
        if events.over_s is not None or not self.is_over:
            return events.over_s
        gone_ns = ranks.wall_ns(ranks.rows["gone_ns"], self.first_offsets)
        last_ns = max(events.last_end_ns, int(gone_ns.max(initial=0)))
        return last_ns / NANOSECONDS if last_ns else None

    @property
    def seen_s(self) -> float:
        """When an agent last looked at one of its ranks, Unix seconds by clocks as they were set at
        first; 0 if none did."""
        moments = self.ranks.wall_ns(self.ranks.rows["time_ns"], self.first_offsets)
        return float(moments.max(initial=0)) / NANOSECONDS

    @property
    def gone(self) -> set[int]:
        """Ranks whose process vanished before they finished."""
        return self.ranks.gone - self.ended.keys()

    def is_gone(self, rank: int) -> bool:
        """Whether the process of `rank` vanished before it finished."""
        return rank in self.ranks.gone and rank not in self.ended

    @property
    def ranks(self) -> Ranks:
        """The newest reports on each rank."""
        return self.tracker(Ranks)

    @property
    def states(self) -> Mapping[int, RankView]:
        """Newest state of each rank that reported."""
        return self.tracker(Ranks).views

    @property
    def lifecycle(self) -> list[Lifecycle]:
        """Starts, ends and resumes of its ranks, in the order they arrived."""
        return self.tracker(LifecycleEvents).events

    @property
    def ended(self) -> dict[int, LifecycleEvent]:
        """How each rank ended that reported its end."""
        return self.tracker(LifecycleEvents).ended

    @property
    def began_s(self) -> float:
        """When the first rank began, Unix seconds; 0 while unknown."""
        return self.tracker(LifecycleEvents).began_s

    @property
    def allocated_s(self) -> float:
        """Since when its devices are held, Unix seconds; 0 while unknown."""
        return float(self.tracker(LifecycleEvents).allocated_s)

    @property
    def resumed_from(self) -> int | None:
        """The step it resumed from; None while no rank reported one."""
        return self.tracker(LifecycleEvents).resumed_from

    @property
    def schedule(self) -> Schedule | None:
        """Its pipeline schedule; None while unknown."""
        return self.tracker(LifecycleEvents).schedule

    @property
    def step_history(self) -> StepHistory:
        """One row per step, for its whole life."""
        return self.tracker(Steps).history

    @property
    def ring(self) -> StepRing:
        """Its newest steps by rank."""
        return self.tracker(Steps).ring

    @property
    def baseline(self) -> Baseline:
        """Medians of its first steps by rank."""
        return self.tracker(Steps).baseline

    @property
    def early_baseline(self) -> EarlyBaseline:
        """Sums over ranks of its first steps."""
        return self.tracker(Steps).early_baseline

    @property
    def rank_seconds(self) -> dict[str, Vector]:
        """Seconds so far (world,) by column of a step."""
        return self.tracker(Steps).rank_seconds

    @property
    def newest_s(self) -> float:
        """Wall time of its newest step, Unix seconds; 0 before the first."""
        return self.tracker(Steps).newest_s

    @property
    def collective_records(self) -> CollectiveRecords:
        """The newest collectives, and the groups."""
        return self.tracker(CollectiveRecords)

    @property
    def checkpoints(self) -> dict[int, Checkpoint]:
        """What is known of each checkpoint, by step."""
        return self.tracker(Checkpoints).known

    @property
    def checkpoints_in_flight(self) -> CheckpointsInFlight:
        """The newest checkpoints, rank by rank."""
        return self.tracker(Checkpoints).in_flight

    @property
    def lost_records(self) -> int:
        """Records that were lost before they were sent."""
        return self.tracker(Agents).lost_records
