"""A collector without its web interface: ingest, live state, and the evaluation loop."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from stepwatch.collector.ingest.receive import Ingest, Verdict
from stepwatch.collector.nodes.fleet import FleetReader
from stepwatch.collector.runtime import agenda, restore, snapshots
from stepwatch.collector.runtime.agenda import Agenda
from stepwatch.collector.runtime.answers import Answers, Unfinished
from stepwatch.collector.runtime.attention import Attention
from stepwatch.collector.runtime.comparisons import Comparisons
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.runtime.evaluation.verdicts import OpenIncidents, Verdicts
from stepwatch.collector.runtime.notifier import Notifiers
from stepwatch.collector.runtime.pace import AskedPace
from stepwatch.collector.runtime.restore import Restorer, decode_kept
from stepwatch.collector.runtime.shared_views import SharedViews
from stepwatch.collector.runtime.site_objectives import SiteObjectives
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
from stepwatch.collector.store.profiles import DayOfProfiles
from stepwatch.signals.clock import NANOSECONDS, Clock, SystemClock
from stepwatch.signals.errors import LeaseLostError, StoreError
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

READY_SECONDS = 3.0
"""Time without a database answer after which a load balancer should skip this collector."""
LEAST_PAUSE_SECONDS = 0.3
"""Pause after a long round: requests and readers need the processor, too."""
MAX_RESTORED_JOBS = 200
"""Number of jobs restored at startup, latest written first; the others stay in the store."""


class Service:
    """Holds a collector's state; safe to call from several threads.

    With `leases` it evaluates the jobs it holds, and stores segments for all jobs; without, it is
    the store's only collector. If `reads_only`, it writes nothing: another collector may use the
    store. A `notifier` sends incident transitions. `objectives` default to the shipped ones. Unless
    it `saves_state`, a restart replays the whole log. Jobs that are not restored after about
    `restore_seconds` follow in `run`.

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
        restore_seconds: float = math.inf,
    ) -> None:
        self.clock = clock or SystemClock()
        self.evaluation_seconds = 0.0
        """Time in which every job was evaluated: a round's, or a longer wait of a job."""
        self.evaluation_failures = 0
        self.ingest_seconds = 0.0
        """Duration of the newest agent request, until all was stored."""
        self.asked_pace = AskedPace()
        self.store = store
        self.nodes = FleetReader(store, self.clock)
        self.profiles_of_day: DayOfProfiles | None = None
        """Requests of the last day; None before the first reading, and while the store is down."""
        self.comparisons = Comparisons(store.profiles)
        self.state = LiveState()
        objectives = objectives or read_objectives()
        self._evaluator = Evaluator(store, objectives, self.clock)
        if notifier is not None:
            self._evaluator.recipients = notifier.recipients
        self._reads_only, self._saves_state = reads_only, saves_state
        self.notifier = notifier
        """Sends the outbox; None if nothing is sent."""
        self.tenancy = Tenancy(leases)
        self.snapshotter = Snapshotter(store, self.state, self.tenancy, clock=self.clock)
        parts = self.state, self._evaluator, self.snapshotter, self.tenancy
        self.restorer = Restorer(store, *parts, clock=self.clock)
        self._succession = Succession(self.state, self.tenancy, self.restorer)
        self._surplus = Surplus(self.state, self.tenancy, self.snapshotter, clock=self.clock)
        self._answers = Answers(self.state, self._evaluator, self.clock)
        self.shared_views = SharedViews(store, self._answers, self.tenancy)
        self._receiving = Outage("store agents' segments")
        self._evaluating = Outage("evaluate jobs")
        self.attention = Attention()
        self._agenda = Agenda()
        self.when_evaluated: Callable[[], object] = lambda: None
        """Called after each round of evaluations, by its thread."""
        self._stopping = threading.Event()
        self._due = threading.Event()
        """Set to start the next evaluation round at once."""
        try:
            if not reads_only:
                decode_kept(store)
            self.site_objectives = SiteObjectives(store, objectives)
            self._evaluator.objectives = self.objectives
            self.ingest = Ingest(store, self.clock, self._hand_over)
            self._succession.begin(store.jobs(MAX_RESTORED_JOBS))
            until = time.monotonic() + restore_seconds
            while self._restore(min(RENEW_SECONDS, restore_seconds)) and time.monotonic() < until:
                self.tenancy.tick()
                self._succession.follow()
        except sa.exc.SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or type(error).__name__
            raise StoreError(
                f"cannot read the store: {reason}; restore it from a copy, or pass another --store"
            ) from error

    @property
    def objectives(self) -> Objectives:
        """The objectives in force."""
        return self.site_objectives.current

    def receive(self, body: bytes, source: str = "") -> list[Verdict]:
        """Store a request body's segments; `source` is the sender's node or address.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store is down; nothing was acknowledged.
        """
        began = time.monotonic()
        try:
            verdicts = self.ingest.receive(body, source)
        except sa.exc.SQLAlchemyError as error:
            self._receiving.noted(error)
            raise
        finally:
            self.ingest_seconds = time.monotonic() - began
        self._receiving.over()
        return verdicts

    def why_not_ready(self) -> str:
        """Return why agents should use another collector for now, empty if ready."""
        silent = self.tenancy.unconfirmed_seconds
        if silent > READY_SECONDS:
            return f"the store has not answered for {silent:.0f} s"
        # Only for a while: without requests nothing shows that the store recovered.
        if self._receiving.is_on and self._receiving.age_seconds < READY_SECONDS:
            return "the store takes no segments"
        return "the store does not answer" if self._evaluating.is_on else ""

    def now(self) -> float:
        """Return Unix seconds on the service's clock."""
        return self.clock.wall_ns() / NANOSECONDS

    def jobs_now(self) -> tuple[list[tuple[LiveJob, Verdicts]], float]:
        """Return jobs with their verdicts, latest written first, and the time (Unix seconds).

        The objects keep changing: for tests, and callers with exclusive use of the service.
        """
        jobs = [self.job(job.name) for job in self.state.jobs()[::-1]]
        return [job for job in jobs if job is not None], self.now()

    def job(self, name: str) -> tuple[LiveJob, Verdicts] | None:
        """Return one job with its verdicts, as `jobs_now` does; None if it is not live."""
        job = self.state.get(name)
        if job is None:
            return None
        with job.lock:
            is_known = self.state.fold(job, self.now())
            return (job.live, self._evaluator.verdicts_of(name)) if is_known else None

    def runs_on(self, name: str, node: str) -> bool:
        """Return whether a node runs ranks of a live job; for others, whether it sent segments."""
        job = self.state.get(name)
        if job is None:
            return self.store.has_sent(name, node)
        with job.lock:
            return self.state.fold(job, self.now()) and job.live.runs_on(node)

    def answer(self, name: str, view: View, shared: View | None = None) -> Published | None:
        """Return the newest answer about a job; None if no collector has it in live state.

        For another collector's job it is that to `shared`, if set: only bytes can be stored.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: another collector evaluates it, and the store is down.
        """
        job = self.state.get(name)
        if job is not None and self.tenancy.may_show(job):
            return self._answers.newest(job, view)
        return None if name in self.withheld() else self.shared_views.read(name, shared or view)

    @property
    def shown_jobs(self) -> list[HeldJob]:
        """The jobs evaluated here, latest written first."""
        return [job for job in self.state.jobs()[::-1] if self.tenancy.may_show(job)]

    def answers(self, view: View, most: int | None = None) -> list[Published]:
        """Return the newest answers about `shown_jobs`, or about the first `most` of them."""
        answers = [self._answers.newest(job, view) for job in self.shown_jobs[:most]]
        return [answer for answer in answers if answer is not None]

    def latest(self, view: View, names: Collection[str] | None = None) -> dict[str, Published]:
        """Return the answers of the newest evaluations by job, of `names` or all evaluated here."""
        jobs = [job for job in self.state.jobs() if names is None or job.name in names]
        answers = {j.name: self._answers.latest(j, view) for j in jobs if self.tenancy.may_show(j)}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def answers_of_others(self, view: View) -> list[Published]:
        """Return the newest answers about jobs that other collectors evaluate.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        local_jobs = {job.name for job in self.state.jobs() if self.tenancy.may_show(job)}
        return self.shared_views.read_all(view, local_jobs | self.withheld().keys())

    def open_incidents(self) -> list[OpenIncidents]:
        """Return the open incidents of the jobs evaluated here; it waits for no evaluation."""
        held = [
            OpenIncidents(name, verdicts.job_class, verdicts.open_incidents())
            for name, verdicts in self._evaluator.verdicts.copy().items()
        ]
        return [incidents for incidents in held if incidents.incidents]

    def withheld(self) -> Mapping[str, Withheld]:
        """Return known and stored jobs that are not evaluated, by name."""
        return {**self.state.crowded_out(self.now()), **self.state.withheld_now()}

    def evaluate(self, seconds: float = math.inf) -> None:
        """Evaluate every job once, or as many as this time is enough for; see `Agenda.turns`.

        A failing job is counted and quarantined. While the store does not answer, a job is counted
        and retried the next time.
        """
        began, failures = time.monotonic(), self.evaluation_failures
        if not self._reads_only:
            with self._failing():
                self.site_objectives.store_generations(self.now())
        self._evaluator.objectives = self.objectives
        with self._failing():
            self._succession.follow()
        with self._failing():
            self._restore(restore.BUDGET_SECONDS)
        with self._failing():
            self.restorer.follow(self.state.jobs(), restore.BUDGET_SECONDS)
        turns = self._agenda.turns(self.state.jobs(), seconds, self.attention.jobs())
        for job in turns:
            with self._failing():
                self._evaluate(job)
        self._forget()
        self.shared_views.write(self.state.jobs())
        if self.evaluation_failures == failures:
            self._evaluating.over()
        if self._saves_state:
            self.snapshotter.advance(snapshots.BUDGET_SECONDS)
        with self._failing():
            self._surplus.give_back()
        spent = time.monotonic() - began
        self.evaluation_seconds = max(spent, self._agenda.longest_wait())
        self.asked_pace.evaluated(self._agenda.late_seconds(spent, seconds))
        self.when_evaluated()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Count a store failure."""
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
            if self.state.fold(job, self.now()):
                try:
                    answers = self._evaluated(job)
                except LeaseLostError:
                    self.tenancy.lost(job)
                    self.state.release(name)
        self._answers.publish(job, answers)
        if name in self.state.withheld:
            self.evaluation_failures += 1
        verdicts = self._evaluator.verdicts_of(name)
        self._agenda.evaluated(name, attentive=verdicts.has_trouble)

    def _evaluated(self, job: HeldJob) -> list[Unfinished]:
        with self.state.contained(job.name, self.now()):
            verdicts = self._evaluator.evaluate(job.live, self.tenancy.lease(job))
            if verdicts is not None:
                job.changed()
                self.evaluation_failures += bool(verdicts.not_looked_for)
                return self._answers.renew(job)
        return []

    def run(self, interval_seconds: float = 1.0) -> None:
        """Evaluate at the interval until `stop`; then save all states and release the leases."""
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
            began = time.monotonic()
            self.evaluate(agenda.MOST_SHARE * interval_seconds)
            self._pause(max(interval_seconds - (time.monotonic() - began), LEAST_PAUSE_SECONDS))
        self.snapshotter.save_all()
        saved.set()
        for thread in threads:
            thread.join()
        self.tenancy.leave()

    def stop(self) -> None:
        """End `run` after the current evaluation."""
        self._stopping.set()
        self._due.set()

    def _pause(self, seconds: float) -> None:
        """Wait for the next evaluation round; restores use the time.

        It ends early after the last restore, after orphaned jobs were claimed, and at a stop.
        """
        until = time.monotonic() + seconds
        failures = self.evaluation_failures
        while self.restorer.is_busy and not self._stopping.is_set():
            remaining_s = until - time.monotonic()
            if remaining_s <= 0 or self.evaluation_failures > failures:
                break
            with self._failing():
                if not self._restore(min(remaining_s, restore.BUDGET_SECONDS)):
                    return
        self._due.wait(max(until - time.monotonic(), 0.0))
        self._due.clear()

    def _hand_over(self, stored: list[tuple[int, Segment]], received_ns: int, source: str) -> None:
        """Apply newly stored segments; a job that is not live is restored later."""
        received = Received(received_ns / NANOSECONDS, self.clock.monotonic_ns() / NANOSECONDS)
        self._agenda.call({segment.key.job for _, segment in stored if agenda.is_event(segment)})
        self.attention.note(segment for _, segment in stored)
        self._succession.want(self.state.hand_over(stored, received, source))

    def _restore(self, seconds: float) -> bool:
        """Restore withheld jobs for this long; return whether any remains."""
        more = self.restorer.advance(seconds)
        self._forget()
        return more

    def _forget(self) -> None:
        """Drop excess jobs, and the results of jobs that are no longer live."""
        dropped = self.state.forget(self.now())
        if dropped:
            names = ", ".join(dropped[:20])
            logger.warning("too many jobs: the collector stops evaluating %s", names)
            self.tenancy.give_up(dropped)
        live = {job.name for job in self.state.jobs()}
        for name in [*self._evaluator.verdicts]:
            if name not in live:
                self._evaluator.forget(name)
                self.snapshotter.forget(name)
                self._answers.forget(name)
                self._agenda.forget(name)
