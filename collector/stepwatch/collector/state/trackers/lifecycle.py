"""Lifecycle reports from ranks: starts, ends, resumes, and the pipeline schedule."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.tracker import MAX_WORLD, Batches, JoinedTracker, TrackedAttempt
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import ENDS, Kind, LifecycleEvent

MAX_EVENTS = 10_000
MOST_ALLOCATED_SECONDS = 366 * 86_400
_OF_OTHERS = (
    LifecycleEvent.DEVICE_TIMING,
    LifecycleEvent.LINK,
    LifecycleEvent.FACT,
    LifecycleEvent.CHECKPOINT_PATH,
    LifecycleEvent.LOADED_PATH,
)
_TAKEN = [event.value for event in LifecycleEvent if event not in _OF_OTHERS]


class Lifecycle(NamedTuple):
    """One lifecycle record in wall time (Unix seconds)."""

    time_s: float
    rank: int
    event: LifecycleEvent
    value: int
    text: str


class Schedule(NamedTuple):
    """An attempt's pipeline schedule; `ideal_bubble_ratio` is its unavoidable bubble.

    None if the schedule defines no order.
    """

    name: str
    ideal_bubble_ratio: float | None


class LifecycleEvents(JoinedTracker):
    """Lifecycle facts; `events` are in arrival order, at most `MAX_EVENTS`.

    Attributes:
        ended: how each rank ended.
        began_wall_ns: start of the first rank, Unix nanoseconds; 0 while unknown.
        began_ns: start of the first rank per node, monotonic there.
        interrupted_s: first report that Ctrl-C ended a rank; infinite without one.
        last_end_ns: last reported end, Unix nanoseconds by the original clock settings; 0 before.
        over_s: end of the attempt, once only that is kept.
        resumed_path: the checkpoint that a rank resumed from, as it reported it; empty if unknown.
        allocated_s: start of the device allocation, Unix seconds; 0 while unknown.

    DEVICE_TIMING events are for the tracker with that name.
    """

    kinds = frozenset({Kind.LIFECYCLE})
    order = 10

    def __init__(self) -> None:
        self.events: list[Lifecycle] = []
        self.ended: dict[int, LifecycleEvent] = {}
        self.began_wall_ns = 0
        self.began_ns: dict[str, int] = {}
        self.interrupted_s = math.inf
        self.resumed_from: int | None = None
        self.resumed_path = ""
        self.schedule: Schedule | None = None
        self.last_end_ns = 0
        self.over_s: float | None = None
        self.allocated_s = 0

    def fold(self, batches: Batches, attempt: TrackedAttempt) -> None:
        """Fold in LIFECYCLE rows; unknown events are ignored.

        Columns are converted to Python values at once: 16,384 ranks may start together.
        """
        table = batches.table(Kind.LIFECYCLE)
        is_relevant = np.isin(table.rows["event"], _TAKEN)
        rows, origin = chosen(table.rows, is_relevant), table.origin[is_relevant].tolist()
        columns = (rows[name].tolist() for name in ("event", "time_ns", "rank", "value", "text"))
        for number, event, time_ns, rank, value, text in zip(origin, *columns, strict=True):
            batch = batches[number]
            if event == LifecycleEvent.SCHEDULE:
                self.schedule = schedule_of(value, text)
                continue
            wall_ns = time_ns + int(batch.to_wall_ns)
            wall_s = wall_ns / NANOSECONDS
            if event == LifecycleEvent.START:
                self._start(time_ns, wall_ns, batch.node, attempt)
            elif event == LifecycleEvent.RESUME and value >= 0:
                self.resumed_from = value
                self.resumed_path = text.decode("utf-8", "replace") or self.resumed_path
            elif event in ENDS:
                self._end(rank, LifecycleEvent(event), wall_s)
                to_unset_ns = attempt.first_offsets.get(batch.node, batch.to_wall_ns)
                self.last_end_ns = max(self.last_end_ns, time_ns + to_unset_ns)
            elif event == LifecycleEvent.ALLOCATION:
                self._hold(value, wall_s)
                continue
            if len(self.events) < MAX_EVENTS:
                words = text.decode("utf-8", "replace")
                self.events.append(Lifecycle(wall_s, rank, LifecycleEvent(event), value, words))

    @property
    def began_s(self) -> float:
        """Start of the first rank, Unix seconds; 0 while unknown."""
        return self.began_wall_ns / NANOSECONDS

    def _start(self, time_ns: int, wall_ns: int, node: str, attempt: TrackedAttempt) -> None:
        self.began_wall_ns = min(self.began_wall_ns or wall_ns, wall_ns)
        if node in attempt.offsets:
            self.began_ns[node] = min(self.began_ns.get(node, time_ns), time_ns)

    def _hold(self, since_s: int, now_s: float) -> None:
        """Store the allocation's start; an impossible time is ignored."""
        if now_s - MOST_ALLOCATED_SECONDS < since_s <= now_s:
            self.allocated_s = since_s

    def _end(self, rank: int, event: LifecycleEvent, wall_s: float) -> None:
        """Store a rank's end; a failure stays a failure, whatever follows."""
        if event is LifecycleEvent.INTERRUPT:
            self.interrupted_s = min(self.interrupted_s, wall_s)
        if 0 <= rank < MAX_WORLD and self.ended.get(rank) is not LifecycleEvent.FAILURE:
            self.ended[rank] = event


def schedule_of(value: int, text: bytes) -> Schedule:
    """Return the schedule in a LIFECYCLE row: its name, and its ideal bubble in millionths."""
    ideal = value / 1e6
    return Schedule(text.decode("utf-8", "replace"), ideal if 0.0 <= ideal < 1.0 else None)
