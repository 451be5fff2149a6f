"""A collector without its web face: ingest, live state, and the evaluation loop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from stepwatch.collector.ingest.receive import Ingest, Verdict
from stepwatch.collector.nodes.fleet import FleetReader
from stepwatch.collector.runtime import restore, snapshots
from stepwatch.collector.runtime.answers import Answers, Unfinished
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.notifier import Notifiers
from stepwatch.collector.runtime.pace import AskedPace
from stepwatch.collector.runtime.restore import Restorer, decode_kept
from stepwatch.collector.runtime.shared_views import SharedViews
from stepwatch.collector.runtime.snapshots import Snapshotter
from stepwatch.collector.runtime.succession import Succession
from stepwatch.collector.runtime.surplus import Surplus
from stepwatch.collector.runtime.tenancy import RENEW_SECONDS, Tenancy
from stepwatch.collector.runtime.views import Published, View
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import LiveState, Withheld
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Leases
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.upkeep.counts import Upkeep
from stepwatch.signals.clock import NANOSECONDS, Clock, SystemClock
from stepwatch.signals.errors import LeaseLostError, StoreError
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

READY_SECONDS = 3.0
"""A collector whose database has not answered for so long is passed over by a load balancer."""
MAX_RESTORED_JOBS = 200
"""Jobs rebuilt at start-up, the newest written; the others stay in the store."""


class Service:
    """Holds everything a collector knows; safe to call from several threads.

    With `leases` it evaluates the jobs that it holds, and stores the segments of all; without, it
    has the store for itself. One that `reads_only` writes nothing: another collector may be at work
    on the store. With a `notifier` it sends what happens to incidents. `objectives` are what is
    asked of jobs, the shipped ones if None. Unless it `saves_state`, a restart folds all of a log.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        leases: Leases | None = None,
        notifier: Notifiers | None = None,
        *,
        objectives: Objectives | None = None,
        reads_only: bool = False,
        saves_state: bool = True,
    ) -> None:
        self.clock = clock or SystemClock()
        self.evaluation_seconds = 0.0
        self.evaluation_failures = 0
        self.ingest_seconds = 0.0
        """Time that the newest request of an agent took, until all of it was stored."""
        self.objectives_unreadable = False
        """Whether the newest documents of SLOs could not be read: those before are in force."""
        self.asked_pace = AskedPace()
        self.store = store
        self.nodes = FleetReader(store, self.clock)
        self._state = LiveState()
        self._evaluator = Evaluator(store, objectives or read_objectives(), self.clock)
        self._evaluator.receivers = () if notifier is None else notifier.receivers
        self._reads_only, self._saves_state = reads_only, saves_state
        self._noted: Objectives | None = None
        """The objectives of which the store keeps the generations."""
        self._asking = threading.Lock()
        self.notifier = notifier
        """Sends what the outbox holds; None where nothing is sent."""
        self.tenancy = Tenancy(leases)
        self._snapshotter = Snapshotter(store, self._state, self.tenancy, clock=self.clock)
        parts = self._state, self._evaluator, self._snapshotter, self.tenancy
        self._restorer = Restorer(store, *parts, clock=self.clock)
        self._succession = Succession(self._state, self.tenancy, self._restorer)
        self._surplus = Surplus(self._state, self.tenancy, self._snapshotter, clock=self.clock)
        self._answers = Answers(self._state, self._evaluator, self.clock)
        self.shared_views = SharedViews(store, self._answers, self.tenancy)
        self._receiving = Outage("store what agents send")
        self._evaluating = Outage("evaluate jobs")
        self._stopping = threading.Event()
        self._due = threading.Event()
        """Set where the next round of evaluations need not be waited for."""
        try:
            if not reads_only:
                decode_kept(store)
            generations = store.newest_generations()
            self.asked_otherwise = self._evaluator.objectives.asked_otherwise(generations)
            """SLOs of which the store was kept with another document than this collector has."""
            self._evaluator.objectives = self._evaluator.objectives.of_generations(generations)
            self._ingest = Ingest(store, self.clock, self._hand_over)
            self._succession.begin(store.jobs(MAX_RESTORED_JOBS))
            while self._restore(RENEW_SECONDS):
                self.tenancy.tick()
                self._succession.follow()
        except sa.exc.SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or type(error).__name__
            raise StoreError(
                f"cannot read the store: {reason}; restore it from a copy, or pass another --store"
            ) from error

    @property
    def objectives(self) -> Objectives:
        """What is asked of jobs now."""
        return self._evaluator.objectives

    def ask_for(self, objectives: Objectives | None) -> None:
        """Ask something else of jobs from the next evaluation on; None where it could not be read:
        then what was asked for stays, and `objectives_unreadable` says so."""
        self.objectives_unreadable = objectives is None
        if objectives is None:
            return
        with self._asking:
            previous, self._evaluator.objectives = self._evaluator.objectives, objectives
        for line in objectives.changes_since(previous):
            logger.info("objectives: %s", line)

    def _note_generations(self) -> None:
        """Keep in the store from when on each SLO asks for what it does."""
        objectives = self._evaluator.objectives
        if self._reads_only or objectives is self._noted:
            return
        slos = {name: (slo.revision, slo.document) for name, slo in objectives.slos.items()}
        generations = self.store.note_generations(slos, self.now())
        noted = objectives.of_generations(generations)
        for name in objectives.asked_otherwise(generations):
            logger.warning("SLO %s: another collector of this store asks for something else", name)
        with self._asking:
            if self._evaluator.objectives is objectives:  # else another one is asked for since then
                self._evaluator.objectives = self._noted = noted

    def receive(self, body: bytes, source: str = "") -> list[Verdict]:
        """Store the segments of a request body; `source` says who sent it: its node or address.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store is gone; nothing was acknowledged.
        """
        began = time.monotonic()
        try:
            verdicts = self._ingest.receive(body, source)
        except sa.exc.SQLAlchemyError as error:
            self._receiving.noted(error)
            raise
        finally:
            self.ingest_seconds = time.monotonic() - began
        self._receiving.over()
        return verdicts

    def why_not_ready(self) -> str:
        """Why agents should send to another collector for now; empty where they need not."""
        silent = self.tenancy.unconfirmed_seconds
        if silent > READY_SECONDS:
            return f"the store has not answered for {silent:.0f} s"
        # Without requests nothing shows that the store takes segments again: so only for a while.
        if self._receiving.is_on and self._receiving.age_seconds < READY_SECONDS:
            return "the store takes no segments"
        return "the store does not answer" if self._evaluating.is_on else ""

    def segment_counts(self) -> Mapping[str, int]:
        """Segments received, by verdict."""
        return dict(self._ingest.counts)

    def unknown_records(self) -> Mapping[int, int]:
        """Records received of kinds that this version does not know, by the kind's number."""
        return dict(self._ingest.unknown_records)

    def undecoded_segments(self) -> int:
        """Segments of later formats that the store keeps as they came."""
        return self._ingest.undecoded

    def unreadable_segments(self) -> int:
        """Stored segments that could not be decoded when their job was read back."""
        return self._restorer.unreadable

    def snapshot_counts(self) -> Mapping[str, int]:
        """Snapshots of jobs' states, by what became of them."""
        return dict(self._snapshotter.counts)

    def upkeep(self) -> Upkeep:
        """What looking after the store has done."""
        return self.store.upkeep

    def unreadable_incidents(self) -> int:
        """Stored incidents whose document could not be read; each counts once."""
        return len(self.store.unreadable_incidents)

    def now(self) -> float:
        """Unix seconds on the service's clock."""
        return self.clock.wall_ns() / NANOSECONDS

    @property
    def jobs_forgotten(self) -> int:
        """Jobs dropped from live state because there were too many; they stay in the store."""
        return self._state.forgotten

    def jobs_now(self) -> tuple[list[tuple[LiveJob, Verdicts]], float]:
        """Jobs with their verdicts, newest written first, and the time (Unix seconds).

        They go on changing: for tests, and whoever has the service for himself.
        """
        jobs = [self.job(job.name) for job in self._state.jobs()[::-1]]
        return [job for job in jobs if job is not None], self.now()

    def job(self, name: str) -> tuple[LiveJob, Verdicts] | None:
        """One job with its verdicts, as `jobs_now`; None where it is not in live state."""
        job = self._state.get(name)
        if job is None:
            return None
        with job.lock:
            is_known = self._state.fold(job, self.now())
            return (job.live, self._evaluator.verdicts_of(name)) if is_known else None

    def runs_on(self, name: str, node: str) -> bool:
        """Whether a node runs ranks of a job; of one not live here, whether it sent segments."""
        job = self._state.get(name)
        if job is None:
            return self.store.has_sent(name, node)
        with job.lock:
            return self._state.fold(job, self.now()) and job.live.runs_on(node)

    def answer(self, name: str, view: View) -> Published | None:
        """The newest answer about a job; None where nobody has it in live state.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: another collector evaluates it, and the store is gone.
        """
        job = self._state.get(name)
        if job is not None and self.tenancy.may_show(job):
            return self._answers.newest(job, view)
        return None if name in self.withheld() else self.shared_views.read(name, view)

    def answers(self, view: View) -> list[Published]:
        """The newest answers about all jobs that are evaluated here, newest written first."""
        jobs = [job for job in self._state.jobs()[::-1] if self.tenancy.may_show(job)]
        answers = [self._answers.newest(job, view) for job in jobs]
        return [answer for answer in answers if answer is not None]

    def answers_of_others(self, view: View) -> list[Published]:
        """The newest answers about jobs that other collectors evaluate.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        local_jobs = {job.name for job in self._state.jobs() if self.tenancy.may_show(job)}
        return self.shared_views.read_all(view, local_jobs | self.withheld().keys())

    def withheld(self) -> Mapping[str, Withheld]:
        """Jobs that are known and stored but not evaluated, by name."""
        return {**self._state.crowded_out(self.now()), **self._state.withheld_now()}

    def evaluate(self) -> None:
        """Evaluate every job once; one that cannot be evaluated is counted and quarantined.

        While the store does not answer a job is counted and tried again the next time.
        """
        began, failures = time.monotonic(), self.evaluation_failures
        with self._failing():
            self._note_generations()
        with self._failing():
            self._succession.follow()
        with self._failing():
            self._restore(restore.BUDGET_SECONDS)
        with self._failing():
            self._restorer.follow(self._state.jobs(), restore.BUDGET_SECONDS)
        for job in self._state.jobs():
            with self._failing():
                self._evaluate(job)
        self._forget()
        self.shared_views.write(self._state.jobs())
        if self.evaluation_failures == failures:
            self._evaluating.over()
        if self._saves_state:
            self._snapshotter.advance(snapshots.BUDGET_SECONDS)
        with self._failing():
            self._surplus.give_back()
        self.evaluation_seconds = time.monotonic() - began
        self.asked_pace.evaluated(self.evaluation_seconds)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Count it if the store does not answer."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            self.evaluation_failures += 1
            self._evaluating.noted(error)

    def _evaluate(self, job: HeldJob) -> None:
        if not self.tenancy.holds(job):
            return
        name, answers = job.name, list[Unfinished]()
        with job.lock:
            if self._state.fold(job, self.now()):
                try:
                    answers = self._evaluated(job)
                except LeaseLostError:
                    self.tenancy.lost(job)
                    self._state.release(name)
        self._answers.publish(job, answers)
        if name in self._state.withheld:
            self.evaluation_failures += 1

    def _evaluated(self, job: HeldJob) -> list[Unfinished]:
        with self._state.contained(job.name, self.now()):
            if self._evaluator.evaluate(job.live, self.tenancy.lease(job)):
                job.changed()
                failed = bool(self._evaluator.verdicts_of(job.name).not_looked_for)
                self.evaluation_failures += failed
                return self._answers.renew(job)
        return []

    def run(self, interval_seconds: float = 1.0) -> None:
        """Evaluate at the interval until `stop`; then save the state of all jobs, and give the
        leases back."""
        saved = threading.Event()  # leases are renewed while states are saved
        renewing = (saved, self._due.set)
        threads = [threading.Thread(target=self.tenancy.run, args=renewing)]
        if self.notifier is not None:
            threads.append(threading.Thread(target=self.notifier.run, args=(self._stopping,)))
        for thread in threads:
            thread.daemon = True  # an error here ends the process, and must not wait for them
            thread.start()
        self._pause(interval_seconds)
        while not self._stopping.is_set():
            self.evaluate()
            self._pause(interval_seconds)
        self._snapshotter.save_all()
        saved.set()
        for thread in threads:
            thread.join()
        self.tenancy.leave()

    def stop(self) -> None:
        """End `run` after the evaluation in progress."""
        self._stopping.set()
        self._due.set()

    def _pause(self, seconds: float) -> None:
        """Wait for the next round of evaluations; jobs that are read back take the time.

        It begins at once where the last of them is back, where jobs of a collector that is gone
        were claimed, and at a stop.
        """
        until = time.monotonic() + seconds
        failures = self.evaluation_failures
        while self._restorer.is_busy and not self._stopping.is_set():
            remaining_s = until - time.monotonic()
            if remaining_s <= 0 or self.evaluation_failures > failures:
                break
            with self._failing():
                if not self._restore(min(remaining_s, restore.BUDGET_SECONDS)):
                    return
        self._due.wait(max(until - time.monotonic(), 0.0))
        self._due.clear()

    def _hand_over(self, stored: list[tuple[int, Segment]], received_ns: int, source: str) -> None:
        """Take what was just stored; a job that is not in live state is read back later."""
        received = Received(received_ns / NANOSECONDS, self.clock.monotonic_ns() / NANOSECONDS)
        self._succession.want(self._state.hand_over(stored, received, source))

    def _restore(self, seconds: float) -> bool:
        """Let withheld jobs come back from the store, for so long; whether any has not yet."""
        more = self._restorer.advance(seconds)
        self._forget()
        return more

    def _forget(self) -> None:
        """Drop what is too much, and what was found in jobs that are no longer live."""
        dropped = self._state.forget(self.now())
        if dropped:
            logger.warning("too many jobs: %s is no longer evaluated", ", ".join(dropped[:20]))
            self.tenancy.give_up(dropped)
        live = {job.name for job in self._state.jobs()}
        for name in [*self._evaluator.verdicts]:
            if name not in live:
                self._evaluator.forget(name)
                self._snapshotter.forget(name)
                self._answers.forget(name)
