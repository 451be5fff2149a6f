"""One job attempt: its identity and its trackers."""

from __future__ import annotations

from stepwatch.collector.state.claims.rank_claims import RankClaims
from stepwatch.collector.state.claims.waiting import Waiting
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.folding.batches import batch_of
from stepwatch.collector.state.outcome import Attendance, Outcome
from stepwatch.collector.state.registry import discover
from stepwatch.collector.state.step_clock import step_timing
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import (
    MAX_NODES,
    Batch,
    Batches,
    Received,
    TrackedAttempt,
    Tracker,
)
from stepwatch.collector.state.trackers.checkpoints import Checkpoints
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.communication.exchanges import stages_known
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.lifecycle import LifecycleEvents
from stepwatch.collector.state.trackers.loaded_paths import LoadedPaths
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.signals.arrays import SmallIntegers
from stepwatch.signals.wire import Segment

_OF_STEPS = (
    *(Steps, DeviceSteps, DeviceTiming, SettledSteps, LifecycleEvents),
    *(Checkpoints, LoadedPaths),
)
"""Trackers that remain of a run once a later run with the same attempt number makes steps."""
MAX_PAST = 1000
"""Maximum number of past runs with one attempt number whose steps are kept; the oldest go first."""


class Attempt(TrackedAttempt):
    """One job attempt, with names for the most used trackers.

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
        if len(self.steps.history):
            self._pass_earlier()
        if self.outcome.is_over:
            self.give_up()

    def waits_with(self, batch: Batch) -> bool:
        """Return whether a batch waits until more ranks vouch for the claimed world."""
        if self.world or self.is_released or not self.waiting.takes(batch, self.claims, self):
            return False
        self.received_s, self.received_monotonic_s = batch.received
        return True

    def begins_again(self, batch: Batch) -> bool:
        """Return whether an ended rank starts again in `batch`: a manual, uncounted relaunch."""
        ended = self.lifecycle.ended.keys() | self.ranks.gone
        return bool(ended) and not ended.isdisjoint(self.claims.may_start(batch))

    def restarted(self) -> Attempt:
        """Return an empty attempt with the same number; the newest ended run stays beside it."""
        ended = self if len(self.steps.history) else self.earlier
        self.earlier = None
        self.give_up()
        fresh = Attempt(self.number, ended, self.totals)
        fresh.past, self.past = self.past, []
        fresh.checkpoints.continue_from(self.checkpoints)
        fresh.tracker(Steps).newest_s = self.steps.newest_s
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
        for run in self.past[-1:]:
            run.keep_trackers(_OF_STEPS)

    def _pass_earlier(self) -> None:
        """Keep of the previous run only its steps, and what a resume is compared with."""
        if self.earlier is None:
            return
        if self.past:
            self.past[-1].keep_trackers(_OF_STEPS)  # only the newest past run keeps its metrics
        self.earlier.keep_steps()
        self.past = [*self.past, self.earlier][-MAX_PAST:]
        self.earlier = None

    def keep_steps(self) -> None:
        """Drop all state except steps, rank ends, checkpoints and the metrics for a resume."""
        self.tracker(LifecycleEvents).over_s = self.outcome.over_s
        metrics = self.tracker(Metrics)
        super().release()
        self._trackers[Metrics] = metrics  # a release drops them
        self.keep_trackers((*_OF_STEPS, Metrics))
        self.checkpoints.keep_newest()
        self.offsets, self.first_offsets, self.claims = {}, {}, RankClaims()

    def keep_trackers(self, kept: tuple[type[Tracker], ...]) -> None:
        """Drop all state except that of the `kept` trackers."""
        self._trackers = {
            kind: tracker if kind in kept else kind() for kind, tracker in self._trackers.items()
        }

    @property
    def runs(self) -> list[Attempt]:
        """Previous runs with the same attempt number, oldest first."""
        return self.past if self.earlier is None else [*self.past, self.earlier]

    @property
    def cells(self) -> int:
        """Cell count, including waiting batches and the previous runs with the same number."""
        claimed = self.waiting.cells + self.claims.cells
        return super().cells + claimed + sum(run.cells for run in self.runs[-2:])

    @property
    def stages(self) -> SmallIntegers:
        """Rank stages (world,), -1 while unknown: from rank reports, else from the exchanges."""
        return stages_known(self)

    def window(self, count: int) -> Window:
        """Return the newest `count` steps, on the `step_clock` clock."""
        on_device = step_timing(self).clock == DEVICE
        device = self.tracker(DeviceSteps).ring if on_device else None
        return self.steps.ring.window(count, self.stages, device)

    def staleness(self, now_s: float) -> dict[str, float]:
        """Return the seconds since the last report of each node that should report.

        `now_s` is monotonic. Unreported ranks count as node `UNKNOWN_NODE`, from the first sign
        that all ranks exist: a step, a rank at work or in a collective.
        """
        ranks = self.ranks
        received = ranks.received_by_node([*ranks.gone, *self.lifecycle.ended])
        reported = int(ranks.reported.sum())
        if not reported:
            return {UNKNOWN_NODE: now_s - self.received_monotonic_s}
        views = ranks.views
        silent = sum(rank not in views for rank in self.lifecycle.ended)
        if reported + silent < self.world:
            first_signs_s = self.tracker(Steps).first_received_monotonic_s, ranks.trains_since_s()
            signs_s = [moment for moment in first_signs_s if moment is not None]
            received.update({UNKNOWN_NODE: min(signs_s)} if signs_s else {})
        return {node: now_s - received_s for node, received_s in received.items()}

    @property
    def ranks(self) -> Ranks:
        """Newest report on each rank."""
        return self.tracker(Ranks)

    @property
    def collective_records(self) -> CollectiveRecords:
        """Newest collectives, and the process groups."""
        return self.tracker(CollectiveRecords)

    @property
    def steps(self) -> Steps:
        """Step times and the step history."""
        return self.tracker(Steps)

    @property
    def lifecycle(self) -> LifecycleEvents:
        """Rank starts, ends and resumes."""
        return self.tracker(LifecycleEvents)

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints by step, and saves under way."""
        return self.tracker(Checkpoints)

    @property
    def attendance(self) -> Attendance:
        """The ranks that are expected in each step."""
        return Attendance(self)

    @property
    def outcome(self) -> Outcome:
        """Whether and how the attempt ended."""
        return Outcome(self)
