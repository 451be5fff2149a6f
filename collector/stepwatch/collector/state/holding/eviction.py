"""Which jobs leave live state if there are too many: newcomers before established jobs.

Any sender can claim any number of jobs. So a job is a newcomer until it has made steps for a
minute. Newcomers go first, beginning with the sender whose newcomers take most room. Among equals
the job with the oldest write goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepwatch.collector.state.holding.held import HeldJob


class Room(NamedTuple):
    """A number of jobs and cells: in use, or the limit."""

    jobs: int
    cells: int

    def holds(self, needed: Room) -> bool:
        """Return whether `needed` fits; one job always does."""
        return needed.jobs <= self.jobs and (needed.cells <= self.cells or needed.jobs <= 1)

    def less(self, job: HeldJob) -> Room:
        """Return the room without a job."""
        return Room(self.jobs - 1, self.cells - job.cells)


class _Newcomers:
    """One sender's newcomers, oldest write first."""

    def __init__(self) -> None:
        self.waiting: deque[HeldJob] = deque()
        self.used = Room(0, 0)

    def add(self, job: HeldJob) -> None:
        self.waiting.append(job)
        self.used = Room(self.used.jobs + 1, self.used.cells + job.cells)

    def pop(self) -> HeldJob:
        job = self.waiting.popleft()
        self.used = self.used.less(job)
        return job


def surplus(jobs: Iterable[HeldJob], room: Room) -> Iterator[HeldJob]:
    """Yield the jobs to evict, in order; `jobs` are in write order.

    With room for 3, a established, b to d newcomers from one sender and e from another: b, then c.
    """
    jobs = list(jobs)
    used = Room(len(jobs), sum(job.cells for job in jobs))
    senders: dict[str, _Newcomers] = {}
    for job in jobs:
        if not job.is_proven:
            senders.setdefault(job.source, _Newcomers()).add(job)
    established = deque(job for job in jobs if job.is_proven)
    while not room.holds(used):
        job = _next(senders, room) or established.popleft()
        used = used.less(job)
        yield job


def _next(senders: dict[str, _Newcomers], room: Room) -> HeldJob | None:
    """Remove and return the oldest newcomer from the sender with the largest share."""
    candidates = [sender for sender in senders.values() if sender.waiting]
    if not candidates:
        return None

    def part(sender: _Newcomers) -> float:
        return max(sender.used.jobs / room.jobs, sender.used.cells / room.cells)

    return max(candidates, key=part).pop()
