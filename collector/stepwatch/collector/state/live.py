"""Live state: the evaluated jobs, and the known jobs withheld from evaluation."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stepwatch.collector.job_states import CROWDED_OUT, QUARANTINED
from stepwatch.collector.state.holding.eviction import Room, surplus
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.holding.log_cursor import waiting_bytes
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.errors import LeaseLostError, StepwatchError
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

MAX_JOBS = 1000
"""A core is full at about as many jobs of eight ranks."""
MAX_CELLS = 1 << 25
"""Limit for all window cells, at about 62 bytes each.

Above it the jobs with the oldest writes go.
"""
MAX_PENDING_BYTES = 64 << 20
"""Limit for waiting segments in bytes.

Above it a request folds in its own jobs' ones; a job under evaluation drops them and reads them
from the log later.
"""
MAX_EVICTED = 10_000
"""Maximum number of evicted jobs whose sender is remembered."""
AGAIN_SECONDS = 30.0
"""Seconds that a repeatedly evicted newcomer stays out: a reload takes time."""
MAX_KEPT_TOTALS = 10_000
"""Maximum number of forgotten jobs with counters, about a kilobyte each.

The first forgotten go first. A job without counters here is counted from the store when it returns.
"""
CONTAINED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    StepwatchError,
    TypeError,
    ValueError,
)
"""Errors that arithmetic over one job's records can raise, however anomalous they are.

Errors of the store (`sqlalchemy.exc.SQLAlchemyError`) or the machine (`OSError`) affect all jobs
and are not included.
"""


class Withheld(NamedTuple):
    """A stored job that is not evaluated: the reason, and since when (Unix seconds)."""

    state: str
    reason: str
    since_s: float


class Evicted(NamedTuple):
    """An evicted newcomer's sender, its number of evictions, and when it may return."""

    source: str
    times: int
    until_s: float


class LiveState:
    """Jobs in write order, newest last; at most `MAX_JOBS` and `MAX_CELLS`.

    Newcomers leave first. `withheld` holds at most `MAX_JOBS` stored jobs that are not evaluated.
    Each job has its own lock. The map's lock is held for moments; a thread may take it while it
    holds a job's lock, never the other way round.
    """

    def __init__(self) -> None:
        self.withheld: dict[str, Withheld] = {}
        self.forgotten = 0
        self._jobs: dict[str, HeldJob] = {}
        self._kept: dict[str, Totals] = {}
        self._evicted: dict[str, Evicted] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> HeldJob | None:
        """Return a job, None if it is not live."""
        return self._jobs.get(name)

    def jobs(self) -> list[HeldJob]:
        """Return the current jobs, newest write last."""
        with self._lock:
            return list(self._jobs.values())

    def withheld_now(self) -> dict[str, Withheld]:
        """Return the withheld jobs by name."""
        with self._lock:
            return dict(self.withheld)

    def crowded_out(self, now_s: float) -> dict[str, Withheld]:
        """Return newcomers that stay out for now, by name; `now_s` is Unix time."""
        reason = "more jobs began than there is room for; it is stored, and evaluated later"
        with self._lock:
            return {
                name: Withheld(CROWDED_OUT, reason, evicted.until_s - AGAIN_SECONDS)
                for name, evicted in self._evicted.items()
                if evicted.until_s > now_s and name not in self._jobs and name not in self.withheld
            }

    def hand_over(
        self, stored: Iterable[tuple[int, Segment]], received: Received, source: str = ""
    ) -> set[str]:
        """Take newly stored segments with their positions, each for the first time.

        `source` is the sender. Segments of withheld jobs stay in the log. Returns the names of jobs
        that are not live although the log holds more segments, and that may return.
        """
        strange, written = set[str](), list[HeldJob]()
        by_job: dict[str, list[tuple[int, Segment]]] = {}
        for entry in stored:
            by_job.setdefault(entry[1].key.job, []).append(entry)
        for name, segments in by_job.items():
            job = self._written(name, source if segments[0][0] == 1 else None)
            if job is None:
                strange.add(name)
                continue
            job.cursor.offer_all(segments, received)
            written.append(job)
        self._give_back(written, received.wall_s)
        return strange - self.withheld.keys() - self.crowded_out(received.wall_s).keys()

    def _written(self, name: str, source: str | None) -> HeldJob | None:
        """Return a live job, or a new one if `source` is given, as the newest written job."""
        with self._lock:
            job = self._jobs.pop(name, None)
            if job is None and source is not None and name not in self.withheld:
                job = HeldJob(LiveJob(name), source=source)
            if job is not None:
                self._jobs[name] = job
            return job

    def _give_back(self, written: list[HeldJob], now_s: float) -> None:
        """Fold in waiting segments above the limit; a job in use drops them instead.

        The jobs just written come first: a request that brings more than there is room for takes
        longer itself, and delays no other by more than its own part.
        """
        excess = waiting_bytes(job.cursor for job in self.jobs()) - MAX_PENDING_BYTES
        if excess <= 0:
            return
        largest_first = sorted(self.jobs(), key=lambda job: job.cursor.waiting_bytes, reverse=True)
        for job in itertools.chain(written, largest_first):
            if excess > 0:
                excess -= self._freed(job, now_s)
        for job in largest_first:
            if excess > 0:  # they wait for a gap to close
                excess -= job.cursor.waiting_bytes
                job.cursor.drop()

    def _freed(self, job: HeldJob, now_s: float) -> int:
        """Fold in a job's waiting segments, or drop them; return their bytes."""
        before = job.cursor.waiting_bytes
        if job.lock.acquire(blocking=False):
            try:
                self.fold(job, now_s)
            finally:
                job.lock.release()
        else:
            job.cursor.drop()
        return before - job.cursor.waiting_bytes

    def fold(self, job: HeldJob, now_s: float) -> bool:
        """Fold in waiting segments under the job's lock; an error quarantines the job.

        Returns whether the job is live and has any known record.
        """
        is_known = False
        with self.contained(job.name, now_s):
            is_known = job.fold()
        return is_known and self._jobs.get(job.name) is job

    @contextmanager
    def contained(self, name: str, now_s: float) -> Iterator[None]:
        """Quarantine the job if the enclosed work raises one of `CONTAINED`.

        Raises:
            LeaseLostError: another collector owns the job now.
        """
        try:
            yield
        except LeaseLostError:
            raise
        except CONTAINED as error:
            self.quarantine(name, error, now_s)

    def quarantine(self, name: str, error: BaseException, now_s: float) -> None:
        """Withhold a job permanently, with the error as the reason."""
        text = " ".join(str(error).split())
        logger.error("job %s is quarantined", name, exc_info=error)
        self.withhold(name, Withheld(QUARANTINED, f"{type(error).__name__}: {text}", now_s))

    def withhold(self, name: str, why: Withheld) -> None:
        """Take a job out of live state; its records are still stored."""
        with self._lock:
            self._drop(name)
            self.withheld.pop(name, None)
            self.withheld[name] = why._replace(reason=why.reason[:300])
            while len(self.withheld) > MAX_JOBS:
                del self.withheld[next(iter(self.withheld))]

    def forget(self, now_s: float) -> list[str]:
        """Evict jobs above the limits, newcomers first; returns their names.

        `now_s` is Unix time.
        """
        dropped = []
        with self._lock:
            for job in list(surplus(self._jobs.values(), Room(MAX_JOBS, MAX_CELLS))):
                if not job.is_proven:
                    self._note_evicted(job, now_s)
                self._drop(job.name)
                dropped.append(job.name)
            self.forgotten += len(dropped)
        return dropped

    def _note_evicted(self, job: HeldJob, now_s: float) -> None:
        previous = self._evicted.pop(job.name, Evicted(job.source, 0, 0.0))
        until_s = now_s + AGAIN_SECONDS if previous.times else 0.0
        self._evicted[job.name] = Evicted(previous.source, previous.times + 1, until_s)
        while len(self._evicted) > MAX_EVICTED:
            del self._evicted[next(iter(self._evicted))]

    def admit(self, job: HeldJob) -> None:
        """Add a job that was reloaded from the store; its counters continue.

        The store returns all counters; the kept totals only guarantee this within one process.
        """
        with self._lock:
            totals = self._kept.pop(job.name, None)
            if totals is not None:
                job.live.totals.raise_to(totals)
            if job.name in self._evicted:
                job.source = self._evicted[job.name].source
            self.withheld.pop(job.name, None)
            self._jobs.pop(job.name, None)
            self._jobs[job.name] = job

    def release(self, name: str) -> None:
        """Remove a job that another collector owns, or that no longer exists."""
        with self._lock:
            self.withheld.pop(name, None)
            self._drop(name)

    def _drop(self, name: str) -> None:
        job = self._jobs.pop(name, None)
        if job is None:
            return
        self._kept[name] = job.live.totals
        while len(self._kept) > MAX_KEPT_TOTALS:
            del self._kept[next(iter(self._kept))]
