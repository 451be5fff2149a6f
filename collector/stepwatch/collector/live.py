"""Live state: what is known now of each job, built from segments in the order they were stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stepwatch.collector.ledger import Ledger
from stepwatch.collector.window import StepRing, Window
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import (
    CheckpointEvent,
    Kind,
    LifecycleEvent,
    ProcessState,
)
from stepwatch.signals.wire import Rows, Segment

MAX_WORLD = 131_072
MAX_ATTEMPTS = 64
MAX_EVENTS = 10_000
USAGE_READINGS = 8
"""Readings kept per rank; agents take one a second."""
_USAGE_FIELDS = ("time_ns", "cpu_seconds", "run_queue_seconds")


class Lifecycle(NamedTuple):
    """One lifecycle record in wall time (Unix seconds)."""

    at: float
    rank: int
    event: LifecycleEvent
    value: int
    text: str


class Checkpoint(NamedTuple):
    """What is known of one checkpoint; None where no rank said it yet."""

    step: int
    stall_seconds: float | None = None
    durable_seconds: float | None = None
    size_bytes: int | None = None
    verified: bool | None = None
    reason: str = ""


class RankView(NamedTuple):
    """Newest state of one rank, with the node it is on and when the collector received it."""

    node: str
    received_s: float
    row: np.void


class Usage(NamedTuple):
    """One reading of a rank's cumulated CPU and run-queue seconds, at a monotonic moment in ns."""

    time_ns: float
    cpu_seconds: float
    run_queue_seconds: float


class Attempt:
    """One attempt of a job."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.world = 0
        self.job_class = ""
        self.began_s = 0.0
        self.newest_s = 0.0
        self.received_s = 0.0
        self.ledger = Ledger()
        self.ring = StepRing(0)
        self.stage = np.full(0, -1, dtype=np.int16)
        self.states: dict[int, RankView] = {}
        self.hosts: dict[str, np.void] = {}
        self.checkpoints: dict[int, Checkpoint] = {}
        self.lifecycle: list[Lifecycle] = []
        self.ended: dict[int, LifecycleEvent] = {}
        self.resumed_from: int | None = None
        self.lost_records = 0
        self.usage: dict[int, deque[Usage]] = {}
        self.rank_seconds: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}

    def apply(self, segment: Segment, received_s: float) -> None:
        """Take in one segment that was not seen before."""
        tables = segment.tables
        offset = segment.clock.wall_ns - segment.clock.monotonic_ns
        self.received_s = max(self.received_s, received_s)
        self._take_states(tables.get(Kind.RANK_STATE), segment.key.node, received_s)
        self._take_lifecycle(tables.get(Kind.LIFECYCLE), offset)
        self._take_steps(tables.get(Kind.STEP), offset)
        self._take_checkpoints(tables.get(Kind.CHECKPOINT))
        gaps = tables.get(Kind.GAP)
        if gaps is not None:
            self.lost_records += int((gaps["last_seq"] - gaps["first_seq"] + 1).sum())
        hosts = tables.get(Kind.HOST)
        if hosts is not None and len(hosts):
            self.hosts[segment.key.node] = hosts[-1]

    def window(self, count: int) -> Window:
        """The newest `count` steps."""
        return self.ring.window(count, self.stage)

    @property
    def finished(self) -> bool:
        """Whether every rank said that it reached the end."""
        finishes = [event for event in self.ended.values() if event is LifecycleEvent.FINISH]
        return self.world > 0 and len(finishes) >= self.world

    @property
    def failed(self) -> bool:
        """Whether a rank said that it failed, or died without a word."""
        if LifecycleEvent.FAILURE in self.ended.values():
            return True
        return any(self.is_gone(rank) for rank in self.states)

    def is_gone(self, rank: int) -> bool:
        """Whether the process of `rank` vanished before it finished."""
        view = self.states.get(rank)
        gone = view is not None and view.row["process_state"] == ProcessState.GONE
        return gone and rank not in self.ended

    def _set_world(self, world: int) -> None:
        if not self.world < world <= MAX_WORLD:
            return
        self.world = world
        self.ring = StepRing(world)
        self.stage = np.full(world, -1, dtype=np.int16)
        self.rank_seconds = {name: np.zeros(world) for name in (*_SUMMED, "duration")}

    def _take_states(self, rows: Rows | None, node: str, received_s: float) -> None:
        for row in rows if rows is not None else ():
            self._set_world(int(row["world"]))
            self.job_class = bytes(row["job_class"]).decode("utf-8", "replace")
            rank = int(row["rank"])
            if 0 <= rank < self.world:
                self.states[rank] = RankView(node, received_s, row)
                usage = self.usage.setdefault(rank, deque(maxlen=USAGE_READINGS))
                usage.append(Usage(*(float(row[name]) for name in _USAGE_FIELDS)))
                self.stage[rank] = row["stage"]

    def _take_lifecycle(self, rows: Rows | None, offset: int) -> None:
        for row in rows if rows is not None else ():
            try:
                event = LifecycleEvent(int(row["event"]))
            except ValueError:
                continue
            at = (int(row["time_ns"]) + offset) / NANOSECONDS
            if event is LifecycleEvent.START:
                self._set_world(int(row["value"]))
                self.began_s = min(self.began_s or at, at)
            elif event is LifecycleEvent.RESUME:
                self.resumed_from = int(row["value"])
            elif event in (LifecycleEvent.FINISH, LifecycleEvent.FAILURE):
                self.ended[int(row["rank"])] = event
            if len(self.lifecycle) < MAX_EVENTS:
                text = bytes(row["text"]).decode("utf-8", "replace")
                fact = Lifecycle(at, int(row["rank"]), event, int(row["value"]), text)
                self.lifecycle.append(fact)

    def _take_steps(self, rows: Rows | None, offset: int) -> None:
        if rows is None or not len(rows):
            return
        fresh = self.ring.add(rows)
        if not len(fresh):
            return
        self.ledger.add(fresh, offset)
        newest = (int(fresh["time_ns"].max()) + offset) / NANOSECONDS
        self.newest_s = max(self.newest_s, newest)
        for name, sums in self.rank_seconds.items():
            np.add.at(sums, fresh["rank"], fresh[f"{name}_ns"] / NANOSECONDS)

    def _take_checkpoints(self, rows: Rows | None) -> None:
        for row in rows if rows is not None else ():
            step = int(row["step"])
            if step not in self.checkpoints and len(self.checkpoints) >= MAX_EVENTS:
                self.checkpoints.pop(next(iter(self.checkpoints)))
            known = self.checkpoints.get(step, Checkpoint(step))
            self.checkpoints[step] = _merged(known, row)


_SUMMED = (
    "other",
    "data",
    "forward",
    "backward",
    "optimizer",
    "checkpoint",
    "eval",
    "collective",
    "pipeline_wait",
)


def _merged(known: Checkpoint, row: np.void) -> Checkpoint:
    """Fold one record in; the checkpoint is as slow as its slowest rank, as good as its worst."""
    event, text = int(row["event"]), bytes(row["text"]).decode("utf-8", "replace")
    stall, durable = int(row["stall_ns"]) / NANOSECONDS, int(row["durable_ns"]) / NANOSECONDS
    if stall:
        known = known._replace(stall_seconds=max(known.stall_seconds or 0.0, stall))
    if event == CheckpointEvent.WRITTEN:
        known = known._replace(
            durable_seconds=max(known.durable_seconds or 0.0, durable),
            size_bytes=max(known.size_bytes or 0, int(row["bytes"])),
        )
    elif event == CheckpointEvent.VERIFIED and known.verified is None:
        known = known._replace(verified=True)
    elif event in (CheckpointEvent.FAILED, CheckpointEvent.REJECTED):
        known = known._replace(verified=False, reason=text)
    return known


class LiveJob:
    """All attempts of one job."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attempts: dict[int, Attempt] = {}

    def apply(self, segment: Segment, received_s: float) -> None:
        """Take in one segment that was not seen before."""
        number = segment.key.attempt
        attempt = self.attempts.get(number)
        if attempt is None:
            attempt = self.attempts[number] = Attempt(number)
            while len(self.attempts) > MAX_ATTEMPTS:
                del self.attempts[min(self.attempts)]
        attempt.apply(segment, received_s)

    @property
    def current(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[max(self.attempts)]

    def ordered(self) -> list[tuple[Attempt, int | None]]:
        """Attempts in order, each with the step a later one resumed at (None: nothing lost)."""
        ordered = [self.attempts[number] for number in sorted(self.attempts)]
        result: list[tuple[Attempt, int | None]] = []
        for index, attempt in enumerate(ordered):
            later = [_restart_step(after) for after in ordered[index + 1 :]]
            known = [step for step in later if step is not None]
            result.append((attempt, min(known) if known else None))
        return result


def _restart_step(attempt: Attempt) -> int | None:
    if attempt.resumed_from is not None:
        return attempt.resumed_from
    return attempt.ledger.first if len(attempt.ledger) else None


class LiveState:
    """All jobs, newest written last."""

    def __init__(self) -> None:
        self.jobs: dict[str, LiveJob] = {}

    def apply(self, segments: Iterable[Segment], received_s: float) -> None:
        """Take in segments that were stored just now, each for the first time."""
        for segment in segments:
            name = segment.key.job
            job = self.jobs.pop(name, None) or LiveJob(name)
            self.jobs[name] = job
            job.apply(segment, received_s)
