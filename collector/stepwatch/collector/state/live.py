"""Live state: the jobs that are evaluated, and those that are known but withheld from it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.totals import Totals
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

MAX_JOBS = 1000
MAX_CELLS = 1 << 25
"""Window cells of all jobs together, at about 62 bytes each; beyond it the oldest written go."""
MAX_PENDING_BYTES = 64 << 20
"""Segments of all jobs that wait to be folded in; beyond it they are folded in at once."""
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

    `withheld` holds what is not among `jobs` although its records are stored, at most `MAX_JOBS`.
    Segments wait in their jobs, about `MAX_PENDING_BYTES` of them: `fold` before reading.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, LiveJob] = {}
        self.withheld: dict[str, Withheld] = {}
        self.forgotten = 0
        self._kept: dict[str, Totals] = {}

    def append(self, segments: Iterable[Segment], received: Received) -> None:
        """Take segments that were stored just now, each for the first time.

        Those of withheld jobs are left to the store.
        """
        for segment in segments:
            name = segment.key.job
            if name in self.withheld:
                continue
            job = self.jobs.pop(name, None) or LiveJob(name)
            self.jobs[name] = job
            job.append(segment, received)
        if sum(job.pending_bytes for job in self.jobs.values()) > MAX_PENDING_BYTES:
            self.fold(received.wall_s)

    def fold(self, now_s: float) -> None:
        """Fold in what waits; a job whose records raise is quarantined."""
        for name, job in [*self.jobs.items()]:
            if job.pending_bytes:
                with self.contained(name, now_s):
                    job.fold()

    @contextmanager
    def contained(self, name: str, now_s: float) -> Iterator[None]:
        """Quarantine the job if what is done for it inside raises one of `CONTAINED`."""
        try:
            yield
        except CONTAINED as error:
            self.quarantine(name, error, now_s)

    def quarantine(self, name: str, error: BaseException, now_s: float) -> None:
        """Withhold a job for good, with the error as the reason."""
        text = " ".join(str(error).split())
        logger.error("job %s is quarantined", name, exc_info=error)
        self.withhold(name, Withheld(QUARANTINED, f"{type(error).__name__}: {text}", now_s))

    def withhold(self, name: str, why: Withheld) -> None:
        """Take a job out of live state; its records go on being stored."""
        job = self.jobs.pop(name, None)
        if job is not None:
            self._keep(job)
        self.withheld.pop(name, None)
        self.withheld[name] = why._replace(reason=why.reason[:300])
        while len(self.withheld) > MAX_JOBS:
            del self.withheld[next(iter(self.withheld))]

    def forget(self) -> list[str]:
        """Drop the jobs that wrote longest ago while there is too much; returns their names."""
        dropped = []
        cells = sum(job.cells for job in self.jobs.values())
        while len(self.jobs) > MAX_JOBS or (cells > MAX_CELLS and len(self.jobs) > 1):
            name = next(iter(self.jobs))
            job = self.jobs.pop(name)
            cells -= job.cells
            self._keep(job)
            dropped.append(name)
        self.forgotten += len(dropped)
        return dropped

    def admit(self, job: LiveJob) -> None:
        """Take a job in that was read back from the store; its counters go on where they were.

        The store gives them all back; what was kept only makes sure of it within one process.
        """
        kept = self._kept.pop(job.name, None)
        if kept is not None:
            job.totals.raise_to(kept)
        self.release(job.name)
        self.jobs.pop(job.name, None)
        self.jobs[job.name] = job

    def release(self, name: str) -> None:
        """Withhold a job no longer."""
        self.withheld.pop(name, None)

    def _keep(self, job: LiveJob) -> None:
        self._kept[job.name] = job.totals
        while len(self._kept) > MAX_KEPT_TOTALS:
            del self._kept[next(iter(self._kept))]
