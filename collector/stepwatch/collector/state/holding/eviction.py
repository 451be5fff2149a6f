"""Which jobs leave live state where there are too many: what is new before what is established.

Anybody who may send can claim any number of jobs. So a job that made no steps for a minute yet is a
newcomer; newcomers go first, those of the sender first whose newcomers take most of the room. Among
equals the one that wrote longest ago goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepwatch.collector.state.holding.held import HeldJob


class Room(NamedTuple):
    """How many jobs and cells there are, or may be."""

    jobs: int
    cells: int

    def holds(self, needed: Room) -> bool:
        """Whether there is room for so much; for one job there always is."""
        return needed.jobs <= self.jobs and (needed.cells <= self.cells or needed.jobs <= 1)

    def less(self, job: HeldJob) -> Room:
        """Without a job."""
        return Room(self.jobs - 1, self.cells - job.cells)


class _Newcomers:
    """Those of one sender, the one that wrote longest ago first."""

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
    """Jobs that must go, in order, of `jobs` in the order in which they wrote.

    With room for 3, of which a is established, b to d are newcomers of one sender and e of another
    one: b, then c.
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
    """The oldest newcomer of the sender who takes the largest part of the room."""
    candidates = [sender for sender in senders.values() if sender.waiting]
    if not candidates:
        return None

    def part(sender: _Newcomers) -> float:
        return max(sender.used.jobs / room.jobs, sender.used.cells / room.cells)

    return max(candidates, key=part).pop()
