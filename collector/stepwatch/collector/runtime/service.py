"""A collector without its web face: ingest, live state, and the evaluation loop."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from stepwatch.collector.ingest.receive import Ingest, Verdict
from stepwatch.collector.runtime import restore, snapshots
from stepwatch.collector.runtime.evaluation import Evaluator, Verdicts
from stepwatch.collector.runtime.pace import AskedPace
from stepwatch.collector.runtime.restore import Restorer, decode_kept
from stepwatch.collector.runtime.snapshots import Snapshotter
from stepwatch.collector.slo.openslo import default_slos
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import LiveState, Withheld
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.collector.store.outage import Outage
from stepwatch.collector.store.upkeep.counts import Upkeep
from stepwatch.signals.clock import NANOSECONDS, Clock, SystemClock
from stepwatch.signals.errors import StoreError
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

MAX_RESTORED_JOBS = 200
"""Jobs rebuilt at start-up, the newest written; the others stay in the store."""


class Service:
    """Holds everything a collector knows; safe to call from several threads.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.evaluation_seconds = 0.0
        self.evaluation_failures = 0
        self.asked_pace = AskedPace()
        self.store = store
        self._state = LiveState()
        self._lock = threading.RLock()
        self._evaluator = Evaluator(store, default_slos(), self.clock)
        self._snapshotter = Snapshotter(store, self._state, clock=self.clock, lock=self._lock)
        self._restorer = Restorer(
            store,
            self._state,
            self._evaluator,
            self._snapshotter,
            clock=self.clock,
            lock=self._lock,
        )
        self._receiving = Outage("store what agents send")
        self._evaluating = Outage("evaluate jobs")
        self._stopping = threading.Event()
        try:
            decode_kept(store)
            self._ingest = Ingest(store, self.clock, self._append, self._lock)
            for name in store.jobs(MAX_RESTORED_JOBS):
                self._restorer.request(name)
            self._restore(math.inf)
        except sa.exc.SQLAlchemyError as error:
            reason = getattr(error, "orig", None) or type(error).__name__
            raise StoreError(
                f"cannot read the store: {reason}; restore it from a copy, or pass another --store"
            ) from error

    def receive(self, body: bytes) -> list[Verdict]:
        """Store the segments of a request body.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store is gone; nothing was acknowledged.
        """
        try:
            verdicts = self._ingest.receive(body)
        except sa.exc.SQLAlchemyError as error:
            self._receiving.noted(error)
            raise
        self._receiving.over()
        return verdicts

    @contextmanager
    def still(self) -> Iterator[None]:
        """While this is held nothing moves, so that an answer is of one moment."""
        with self._lock:
            yield

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
        """Jobs with their verdicts, newest written first, and the time (Unix seconds)."""
        with self._lock:
            self._fold()
            jobs = list(self._state.jobs.values())[::-1]
            return [(job, self._verdicts(job.name)) for job in jobs], self.now()

    def job(self, name: str) -> tuple[LiveJob, Verdicts] | None:
        """One job with its verdicts; None where it is not in live state."""
        with self._lock:
            self._fold()
            job = self._state.jobs.get(name)
            return None if job is None else (job, self._verdicts(name))

    def withheld(self) -> Mapping[str, Withheld]:
        """Jobs that are known and stored but not evaluated, by name."""
        with self._lock:
            self._fold()
            return dict(self._state.withheld)

    def evaluate(self) -> None:
        """Evaluate every job once; one that cannot be evaluated is counted and quarantined.

        While the store does not answer a job is counted and tried again the next time.
        """
        began, failures = time.monotonic(), self.evaluation_failures
        try:
            self._restore(restore.BUDGET_SECONDS)
        except sa.exc.SQLAlchemyError as error:
            self.evaluation_failures += 1
            self._evaluating.noted(error)
        with self._lock:
            self._fold()
            names = [*self._state.jobs]
        for name in names:
            try:
                with self._lock:
                    self._evaluate(name)
            except sa.exc.SQLAlchemyError as error:
                self.evaluation_failures += 1
                self._evaluating.noted(error)
        if self.evaluation_failures == failures:
            self._evaluating.over()
        self._snapshotter.advance(snapshots.BUDGET_SECONDS)
        self.evaluation_seconds = time.monotonic() - began
        self.asked_pace.evaluated(self.evaluation_seconds)

    def _evaluate(self, name: str) -> None:
        job = self._state.jobs.get(name)
        if job is None:
            return
        with self._state.contained(name, self.now()):
            job.fold()
            self._evaluator.evaluate(job)
        if name in self._state.withheld:
            self.evaluation_failures += 1
            self._evaluator.forget(name)

    def run(self, interval_seconds: float = 1.0) -> None:
        """Evaluate at the interval until `stop`; then save the state of all jobs."""
        while not self._stopping.wait(interval_seconds):
            self.evaluate()
        self._snapshotter.save_all()

    def stop(self) -> None:
        """End `run` after the evaluation in progress."""
        self._stopping.set()

    def _append(self, segments: list[Segment], received_ns: int) -> None:
        """Take what was just stored; a job that is not in live state is read back later."""
        received = Received(received_ns / NANOSECONDS, self.clock.monotonic_ns() / NANOSECONDS)
        known = self._state.jobs.keys() | self._state.withheld.keys()
        counts = Counter(segment.key.job for segment in segments)
        for name in counts.keys() - known:
            if self._has_history(name, counts[name]):
                self._restorer.request(name)
        self._state.append(segments, received)
        self._forget()

    def _has_history(self, name: str, stored_now: int) -> bool:
        """Whether the store knew the job before; if it does not say, the job is read back."""
        try:
            return self.store.has_more_than(name, stored_now)
        except sa.exc.SQLAlchemyError as error:
            self._receiving.noted(error)
            return True

    def _restore(self, seconds: float) -> None:
        """Let withheld jobs come back from the store, for so long."""
        self._restorer.advance(seconds)
        with self._lock:
            self._forget()

    def _fold(self) -> None:
        """Fold in what was received since, before anybody reads; `_lock` is held."""
        self._state.fold(self.now())
        self._forget()

    def _forget(self) -> None:
        for name in self._state.withheld.keys() & self._evaluator.verdicts.keys():
            self._forget_job(name)
        dropped = self._state.forget()
        for name in dropped:
            self._forget_job(name)
        if dropped:
            logger.warning("too many jobs: %s is no longer evaluated", ", ".join(dropped[:20]))

    def _forget_job(self, name: str) -> None:
        self._evaluator.forget(name)
        self._snapshotter.forget(name)

    def _verdicts(self, job: str) -> Verdicts:
        return self._evaluator.verdicts.setdefault(job, Verdicts())
