"""Which jobs a round evaluates: jobs with news of trouble first, quiet ones in turns.

An evaluation of a job with eight ranks takes about four milliseconds, however many steps it covers:
hundreds of jobs share a processor only if a quiet job waits some seconds for its turn.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.signals.records import Kind, ProcessState
from stepwatch.signals.wire import Segment
from stepwatch.signals.wire.packed import PackedTables

EVENTS = frozenset({Kind.LIFECYCLE, Kind.DIAGNOSIS, Kind.FLIGHT, Kind.LAST_LINE})
"""Kinds of records about an event: a start, an end, a save, a stall; most segments have none."""
_STATE, _FIELD, _STOPPED = Kind.RANK_STATE, "process_state", int(ProcessState.STOPPED)
MOST_SHARE = 0.7
"""Share of the interval between rounds for jobs with trouble, for new ones, and for the others."""
SHORT_SHARE = 0.35
"""Share of that time for jobs that wait for less than `QUIET_SECONDS`: 0.25 s of a second."""
QUIET_SECONDS = 5.0
"""Longest wait of a job with new segments while there is time: half of what a verdict may take."""
NEWS = 2.0
"""How many times longer a job without new segments may wait.

Its evaluation notices that agents are silent, which takes them three intervals.
"""


def is_event(segment: Segment) -> bool:
    """Return whether a segment reports an event, or a rank whose process is stopped or gone."""
    tables = segment.tables
    states = tables.small_values(_STATE, _FIELD) if isinstance(tables, PackedTables) else None
    if states is None:  # rare: the rows tell
        rows = tables.get(_STATE)
        states = frozenset() if rows is None else frozenset(rows[_FIELD].tolist())
    return any(state >= _STOPPED for state in states) or not EVENTS.isdisjoint(tables)


def _planned(job: HeldJob) -> float:
    """Return the longest wait in seconds that is planned for a job."""
    return QUIET_SECONDS if job.cursor.waiting_bytes else NEWS * QUIET_SECONDS


class Agenda:
    """When each job was evaluated, and which ones need the next evaluation soon.

    `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._evaluated_s: dict[str, float] = {}
        self._attentive: set[str] = set()
        self._called: set[str] = set()
        self._late_s = -math.inf
        """The longest wait beyond a planned one, when the newest round began."""
        self._lock = threading.Lock()

    def call(self, names: Iterable[str]) -> None:
        """Have jobs evaluated in the next round, whatever else waits; from any thread."""
        with self._lock:
            self._called.update(names)

    def evaluated(self, name: str, *, attentive: bool) -> None:
        """Note an evaluation; an `attentive` job has a finding or an open incident."""
        self._evaluated_s[name] = self._clock()
        (self._attentive.add if attentive else self._attentive.discard)(name)

    def turns(
        self, jobs: Sequence[HeldJob], seconds: float, alarmed: Collection[str] = ()
    ) -> Iterator[HeldJob]:
        """Yield the jobs of a round in their order; the caller evaluates each.

        Called jobs come in every round. Jobs with trouble and `alarmed` ones come next for at most
        `seconds`, then new jobs for as long, then the others: none waits for another's, however
        long one evaluation takes. Of two other jobs, one with new segments that waits for 3 s comes
        before one without that waits for 5 s.
        """
        now = self._clock()
        with self._lock:
            called, self._called = self._called, set()
        urgency: dict[str, float] = {}
        """Waits beside the planned ones: at 1 a job is due."""
        calls, *lanes = list[HeldJob](), list[HeldJob](), list[HeldJob](), list[HeldJob]()
        trouble, new, others = lanes
        self._late_s = -math.inf
        for job in jobs:
            wait, planned = now - self._evaluated_s.get(job.name, -math.inf), _planned(job)
            urgency[job.name] = wait / planned
            if math.isinf(wait):
                new.append(job)
                continue
            self._late_s = max(self._late_s, wait - planned)
            is_trouble = job.name in self._attentive or job.name in alarmed
            (calls if job.name in called else trouble if is_trouble else others).append(job)
        yield from calls
        for lane in lanes:
            lane.sort(key=lambda job: urgency[job.name], reverse=True)
            began, is_begun = self._clock(), False
            for job in lane:
                share = 1.0 if urgency[job.name] >= 1.0 else SHORT_SHARE
                if not is_begun or self._clock() - began < share * seconds:
                    is_begun = True
                    yield job

    def longest_wait(self) -> float:
        """Return the seconds since the oldest evaluation of a job."""
        return self._clock() - min(self._evaluated_s.values(), default=self._clock())

    def late_seconds(self, spent: float, seconds: float) -> float:
        """Return by how much the round, or a job's wait at its beginning, is longer than planned.

        The round took `spent` seconds of `seconds`; without a limit, all of them are late. A job
        that waits for its planned time has its turn within two intervals.
        """
        if math.isinf(seconds):
            return spent
        return max(spent - seconds, self._late_s - 2 * seconds / MOST_SHARE)

    def forget(self, name: str) -> None:
        """Drop a job that is no longer live."""
        self._evaluated_s.pop(name, None)
        self._attentive.discard(name)
