"""Which jobs a round evaluates: jobs with news of trouble first, quiet ones in turns.

An evaluation of a job with eight ranks takes about four milliseconds, however many steps it covers:
hundreds of jobs share a processor only if a quiet job waits some seconds for its turn.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.signals.records import Kind, ProcessState
from stepwatch.signals.wire import Segment

EVENTS = frozenset({Kind.LIFECYCLE, Kind.DIAGNOSIS, Kind.FLIGHT, Kind.LAST_LINE})
"""Kinds of records about an event: a start, an end, a save, a stall; most segments have none."""
ROUND_SECONDS = 0.25
"""Time for a round while no job waits longer than `QUIET_SECONDS`."""
MOST_SECONDS = 0.7
"""Time for a round in which jobs wait longer: the rest of a second is for requests and readers."""
QUIET_SECONDS = 5.0
"""Longest wait of a job while there is time: half of what a verdict may take."""
ATTENTION = 5.0
"""By how much a job with a finding or an open incident comes before one with news, and that before
one without."""


def is_event(segment: Segment) -> bool:
    """Return whether a segment reports an event, or a rank whose process is stopped or gone."""
    states = segment.tables.get(Kind.RANK_STATE)
    if states is not None and (states["process_state"] >= ProcessState.STOPPED).any():
        return True
    return not EVENTS.isdisjoint(segment.tables)


class Agenda:
    """When each job was evaluated, and which ones need the next evaluation soon.

    `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._evaluated_s: dict[str, float] = {}
        self._attentive: set[str] = set()
        self._called: set[str] = set()
        self._lock = threading.Lock()

    def call(self, names: Iterable[str]) -> None:
        """Have jobs evaluated in the next round, whatever else waits; from any thread."""
        with self._lock:
            self._called.update(names)

    def evaluated(self, name: str, *, attentive: bool) -> None:
        """Note an evaluation; an `attentive` job has a finding or an open incident."""
        self._evaluated_s[name] = self._clock()
        (self._attentive.add if attentive else self._attentive.discard)(name)

    def turns(self, jobs: Sequence[HeldJob], seconds: float) -> Iterator[HeldJob]:
        """Yield the jobs of a round in their order; the caller evaluates each.

        New and called jobs come in every round, the others for at most `seconds`. Of a job without
        new segments that waits for 4 s, one with, for 2 s, and one with an incident, for 1 s, the
        last one is first.
        """
        began = self._clock()
        with self._lock:
            called, self._called = self._called, set()
        waits = {job.name: self._wait(job.name, began, called) for job in jobs}
        ranked = sorted(jobs, key=lambda job: self._urgency(job, waits[job.name]), reverse=True)
        for job in ranked:
            wait = waits[job.name]
            limit = seconds if wait >= QUIET_SECONDS else min(seconds, ROUND_SECONDS)
            if math.isinf(wait) or self._clock() - began < limit:
                yield job

    def _wait(self, name: str, now_s: float, called: set[str]) -> float:
        """Return the seconds since a job's evaluation; infinite for a new or called one."""
        return math.inf if name in called else now_s - self._evaluated_s.get(name, -math.inf)

    def _urgency(self, job: HeldJob, wait: float) -> float:
        if job.name in self._attentive:
            return wait * ATTENTION
        return wait if job.cursor.waiting_bytes else wait / ATTENTION

    def longest_wait(self) -> float:
        """Return the seconds since the oldest evaluation of a job."""
        return self._clock() - min(self._evaluated_s.values(), default=self._clock())

    def forget(self, name: str) -> None:
        """Drop a job that is no longer live."""
        self._evaluated_s.pop(name, None)
        self._attentive.discard(name)
