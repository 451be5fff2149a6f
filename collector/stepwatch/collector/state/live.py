"""Live state: the jobs that are evaluated, and those that are known but withheld from it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple

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
MAX_KEPT_TOTALS = 10_000
"""Forgotten jobs whose counters are kept, at about a kilobyte each; those of the first to be
forgotten go first, and are counted from the store when the job returns."""
QUARANTINED, RESTORING = "quarantined", "restoring"
"""Why a job is withheld: its records or its evaluation raised; its history is being read back."""
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


class LiveState:
    """The jobs that wrote last, newest written last; at most `MAX_JOBS` and `MAX_CELLS`.

    `withheld` holds what is not among the jobs although its records are stored, at most `MAX_JOBS`.
    Each job has a lock of its own. The one of the map is held for moments, and taken by holders of
    a job's lock, never the other way round.
    """

    def __init__(self) -> None:
        self.withheld: dict[str, Withheld] = {}
        self.forgotten = 0
        self._jobs: dict[str, HeldJob] = {}
        self._kept: dict[str, Totals] = {}
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

    def hand_over(self, stored: Iterable[tuple[int, Segment]], received: Received) -> set[str]:
        """Take segments that were stored just now, with their positions, each for the first time.

        Those of withheld jobs are left to the log. Returns names of jobs that are not live although
        the log holds more of them.
        """
        strange: set[str] = set()
        for name, members in groupby(stored, key=lambda each: each[1].key.job):
            segments = list(members)
            held = self._written(name, is_new=segments[0][0] == 1)
            if held is None:
                strange.add(name)
                continue
            held.cursor.offer_all(segments, received)
        self._give_back(received.wall_s)
        return strange - self.withheld.keys()

    def _written(self, name: str, *, is_new: bool) -> HeldJob | None:
        """A job that is live or new, which is the newest written from now on."""
        with self._lock:
            held = self._jobs.pop(name, None)
            if held is None and is_new and name not in self.withheld:
                held = HeldJob(LiveJob(name))
            if held is not None:
                self._jobs[name] = held
            return held

    def _give_back(self, now_s: float) -> None:
        """While too much waits: fold it in, or leave it to the log where a job is in use."""
        held = self.jobs()
        if waiting_bytes(job.cursor for job in held) <= MAX_PENDING_BYTES:
            return
        for job in held:
            if job.lock.acquire(blocking=False):
                try:
                    self.fold(job, now_s)
                finally:
                    job.lock.release()
            else:
                job.cursor.drop()
        for job in held:
            if waiting_bytes(each.cursor for each in held) > MAX_PENDING_BYTES:
                job.cursor.drop()  # it waits behind a gap

    def fold(self, job: HeldJob, now_s: float) -> bool:
        """Fold in what waits, quarantining the job if that raises; its lock is held.

        Returns whether it is live and any record of it is known.
        """
        known = False
        with self.contained(job.name, now_s):
            known = job.fold()
        return known and self._jobs.get(job.name) is job

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

    def forget(self) -> list[str]:
        """Drop the jobs that wrote longest ago while there is too much; returns their names."""
        dropped = []
        with self._lock:
            cells = sum(job.cells for job in self._jobs.values())
            while len(self._jobs) > MAX_JOBS or (cells > MAX_CELLS and len(self._jobs) > 1):
                name = next(iter(self._jobs))
                cells -= self._jobs[name].cells
                self._drop(name)
                dropped.append(name)
            self.forgotten += len(dropped)
        return dropped

    def admit(self, job: HeldJob) -> None:
        """Take a job in that was read back from the store; its counters go on where they were.

        The store gives them all back; what was kept only makes sure of it within one process.
        """
        with self._lock:
            kept = self._kept.pop(job.name, None)
            if kept is not None:
                job.live.totals.raise_to(kept)
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
