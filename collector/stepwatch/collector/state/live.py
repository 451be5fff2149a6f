"""Live state: the jobs that are evaluated, and those that are known but withheld from it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

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
MAX_CELLS = 1 << 25
"""Window cells of all jobs together, at about 62 bytes each; beyond it the oldest written go."""
MAX_PENDING_BYTES = 64 << 20
"""Segments of all jobs that wait to be folded in; beyond it they are folded in at once, or, where
a job is just being evaluated, given back and read from the log later."""
MAX_EVICTED = 10_000
"""Evicted jobs whose sender is kept in mind."""
AGAIN_SECONDS = 30.0
"""How long a newcomer that was evicted once more stays out: to read it back takes time."""
MAX_KEPT_TOTALS = 10_000
"""Forgotten jobs whose counters are kept, at about a kilobyte each; those of the first to be
forgotten go first, and are counted from the store when the job returns."""
QUARANTINED, RESTORING = "quarantined", "restoring"
"""Why a job is withheld: its records or its evaluation raised; its history is being read back."""
CROWDED_OUT = "crowded-out"
"""A job that began lately, and left twice as others needed the room; it comes back later."""
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
"""What arithmetic over the records of one job can raise, however odd they are.

Anything of the store (`sqlalchemy.exc.SQLAlchemyError`) or of the machine (`OSError`) concerns all
jobs and is not among them.
"""


class Withheld(NamedTuple):
    """A job that is known and stored but not evaluated: why, and since when (Unix seconds)."""

    state: str
    reason: str
    since_s: float


class Evicted(NamedTuple):
    """Who sent a job that was evicted as a newcomer, how often it was, and when it may return."""

    source: str
    times: int
    until_s: float


class LiveState:
    """The jobs that wrote last, newest written last; at most `MAX_JOBS` and `MAX_CELLS`, of which
    newcomers leave first.

    `withheld` holds what is not among the jobs although its records are stored, at most `MAX_JOBS`.
    Each job has a lock of its own. The one of the map is held for moments, and taken by holders of
    a job's lock, never the other way round.
    """

    def __init__(self) -> None:
        self.withheld: dict[str, Withheld] = {}
        self.forgotten = 0
        self._jobs: dict[str, HeldJob] = {}
        self._kept: dict[str, Totals] = {}
        self._evicted: dict[str, Evicted] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> HeldJob | None:
        """A job, None where it is not live."""
        return self._jobs.get(name)

    def jobs(self) -> list[HeldJob]:
        """The jobs of now, newest written last."""
        with self._lock:
            return list(self._jobs.values())

    def withheld_now(self) -> dict[str, Withheld]:
        """What is withheld now, by name."""
        with self._lock:
            return dict(self.withheld)

    def crowded_out(self, now_s: float) -> dict[str, Withheld]:
        """Newcomers that stay out for now, by name; `now_s` is Unix time."""
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
        """Take segments that were stored just now, with their positions, each for the first time.

        `source` says who sent them. Those of withheld jobs are left to the log. Returns names of
        jobs that are not live although the log holds more of them, and that may be.
        """
        strange: set[str] = set()
        by_job: dict[str, list[tuple[int, Segment]]] = {}
        for entry in stored:
            by_job.setdefault(entry[1].key.job, []).append(entry)
        for name, segments in by_job.items():
            job = self._written(name, source if segments[0][0] == 1 else None)
            if job is None:
                strange.add(name)
                continue
            job.cursor.offer_all(segments, received)
        self._give_back(received.wall_s)
        return strange - self.withheld.keys() - self.crowded_out(received.wall_s).keys()

    def _written(self, name: str, source: str | None) -> HeldJob | None:
        """A job that is live, or new where a `source` is given: the newest written from now on."""
        with self._lock:
            job = self._jobs.pop(name, None)
            if job is None and source is not None and name not in self.withheld:
                job = HeldJob(LiveJob(name), source=source)
            if job is not None:
                self._jobs[name] = job
            return job

    def _give_back(self, now_s: float) -> None:
        """While too much waits: fold it in, or leave it to the log where a job is in use."""
        jobs = self.jobs()
        if waiting_bytes(job.cursor for job in jobs) <= MAX_PENDING_BYTES:
            return
        for job in jobs:
            if job.lock.acquire(blocking=False):
                try:
                    self.fold(job, now_s)
                finally:
                    job.lock.release()
            else:
                job.cursor.drop()
        for job in jobs:
            if waiting_bytes(peer.cursor for peer in jobs) > MAX_PENDING_BYTES:
                job.cursor.drop()  # it waits behind a gap

    def fold(self, job: HeldJob, now_s: float) -> bool:
        """Fold in what waits, quarantining the job if that raises; its lock is held.

        Returns whether it is live and any record of it is known.
        """
        is_known = False
        with self.contained(job.name, now_s):
            is_known = job.fold()
        return is_known and self._jobs.get(job.name) is job

    @contextmanager
    def contained(self, name: str, now_s: float) -> Iterator[None]:
        """Quarantine the job if what is done for it inside raises one of `CONTAINED`.

        Raises:
            LeaseLostError: it is somebody else's job now.
        """
        try:
            yield
        except LeaseLostError:
            raise
        except CONTAINED as error:
            self.quarantine(name, error, now_s)

    def quarantine(self, name: str, error: BaseException, now_s: float) -> None:
        """Withhold a job for good, with the error as the reason."""
        text = " ".join(str(error).split())
        logger.error("job %s is quarantined", name, exc_info=error)
        self.withhold(name, Withheld(QUARANTINED, f"{type(error).__name__}: {text}", now_s))

    def withhold(self, name: str, why: Withheld) -> None:
        """Take a job out of live state; its records go on being stored."""
        with self._lock:
            self._drop(name)
            self.withheld.pop(name, None)
            self.withheld[name] = why._replace(reason=why.reason[:300])
            while len(self.withheld) > MAX_JOBS:
                del self.withheld[next(iter(self.withheld))]

    def forget(self, now_s: float) -> list[str]:
        """Drop jobs while there is too much, newcomers first; returns their names.

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
        """Take a job in that was read back from the store; its counters go on where they were.

        The store gives them all back; what was kept only makes sure of it within one process.
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
        """Neither live nor withheld any longer: it is somebody else's, or there is none."""
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
