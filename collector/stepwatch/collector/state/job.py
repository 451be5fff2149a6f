"""One job and its attempts, built from segments in the order they were stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import Schedule, schedule_of
from stepwatch.collector.ingest import validation
from stepwatch.collector.state import checkpoints
from stepwatch.collector.state.baseline import Baseline
from stepwatch.collector.state.checkpoints import Checkpoint
from stepwatch.collector.state.checkpoints_in_flight import CheckpointsInFlight
from stepwatch.collector.state.collective_records import CollectiveRecords
from stepwatch.collector.state.diagnoses import Diagnoses
from stepwatch.collector.state.early_baseline import EarlyBaseline
from stepwatch.collector.state.memory_history import MemoryHistory
from stepwatch.collector.state.microbatches import Microbatches
from stepwatch.collector.state.node_facts import NodeFacts
from stepwatch.collector.state.numerics import Numerics
from stepwatch.collector.state.ranks import Ranks, RankView
from stepwatch.collector.state.step_history import StepHistory
from stepwatch.collector.state.step_window import COLUMNS, StepRing, Window
from stepwatch.collector.state.totals import CountedSteps, Totals
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows, Segment

MAX_WORLD = 131_072
MAX_ATTEMPTS = 1000
MAX_EVENTS = 10_000
MAX_NODES = 16_384
MAX_JOB_CELLS = 1 << 24
"""Window cells of one job; beyond it its oldest attempts keep their step_history only."""


class Lifecycle(NamedTuple):
    """One lifecycle record in wall time (Unix seconds)."""

    at: float
    rank: int
    event: LifecycleEvent
    value: int
    text: str


class Received(NamedTuple):
    """When the collector took something in: Unix seconds, and seconds on its monotonic clock.

    Silence is counted on the monotonic one, so that a wall-clock step is never called silence.
    """

    wall_s: float
    monotonic_s: float


class Attempt:
    """One attempt of a job."""

    def __init__(
        self, number: int, earlier: Attempt | None = None, totals: Totals | None = None
    ) -> None:
        self.number = number
        self.totals = totals or Totals()
        """Those of the job; they keep what this attempt counted when it is gone."""
        self._counted = CountedSteps(self.totals)
        self.earlier = earlier
        """The run of the same number before it, until this one makes a step."""
        self.world = 0
        self.job_class = ""
        self.began_s = 0.0
        self.newest_s = 0.0
        self.received_s = 0.0
        self.received_monotonic_s = 0.0
        self.first_step_received_s: float | None = None
        self.refused_records = 0
        self.step_history = StepHistory()
        self.early_baseline = EarlyBaseline()
        self.ring = StepRing(0)
        self.collective_records = CollectiveRecords()
        self.baseline = Baseline()
        self.diagnoses = Diagnoses()
        self.numerics = Numerics()
        self.memory = MemoryHistory()
        self.microbatches = Microbatches()
        self.ranks = Ranks()
        self.offsets: dict[str, int] = {}
        """Wall minus monotonic nanoseconds of each node."""
        self.began_ns: dict[str, int] = {}
        """When the first rank of each node began, monotonic there."""
        self.hosts: dict[str, np.void] = {}
        self.facts = NodeFacts()
        self.checkpoints: dict[int, Checkpoint] = {}
        self.checkpoints_in_flight = CheckpointsInFlight()
        self.lifecycle: list[Lifecycle] = []
        self.ended: dict[int, LifecycleEvent] = {}
        self.schedule: Schedule | None = None
        self.resumed_from: int | None = None
        self.lost_records = 0
        self.rank_seconds: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}

    def apply(self, segment: Segment, heard: Received) -> None:
        """Take in one segment that was not seen before."""
        tables = segment.tables
        offset = segment.clock.wall_ns - segment.clock.monotonic_ns
        self.received_s, self.received_monotonic_s = heard
        if segment.key.node in self.offsets or len(self.offsets) < MAX_NODES:
            self.offsets[segment.key.node] = offset
        self._take_states(tables.get(Kind.RANK_STATE), segment.key.node, heard.monotonic_s)
        self._take_lifecycle(tables.get(Kind.LIFECYCLE), offset, segment.key.node)
        self._take_calls(tables.get(Kind.COLLECTIVE), tables.get(Kind.GROUP))
        self._take_steps(tables.get(Kind.STEP), offset)
        self._take_checkpoints(tables.get(Kind.CHECKPOINT), offset, segment.key.node)
        if (states := tables.get(Kind.RANK_STATE)) is not None:
            self.checkpoints_in_flight.look(states)
        self.diagnoses.take(tables.get(Kind.DIAGNOSIS), tables.get(Kind.FLIGHT), self.world)
        self._take_numbers(tables)
        if (gaps := tables.get(Kind.GAP)) is not None:
            self.lost_records += validation.lost_records(gaps)
        hosts = tables.get(Kind.HOST)
        known = segment.key.node in self.hosts or len(self.hosts) < MAX_NODES
        if hosts is not None and len(hosts) and known:
            self.hosts[segment.key.node] = hosts[-1]
        self.facts.take(tables, segment.key.node)
        if self._is_over():
            self.give_up()

    def begins_again(self, segment: Segment) -> bool:
        """Whether a rank that had ended starts in `segment`: somebody launched the job once more.

        Launchers count their own restarts; by hand, nobody counts.
        """
        rows = segment.tables.get(Kind.LIFECYCLE)
        if rows is None:
            return False
        started = rows["rank"][rows["event"] == LifecycleEvent.START].tolist()
        return not (self.ended.keys() | self.ranks.gone).isdisjoint(started)

    def anew(self) -> Attempt:
        """An attempt of the same number that knows nothing; what ended last stays beside it."""
        ended = self if len(self.step_history) else self.earlier
        self.earlier = None
        self.give_up()
        fresh = Attempt(self.number, ended, self.totals)
        fresh.newest_s = self.newest_s
        return fresh

    def window(self, count: int) -> Window:
        """The newest `count` steps."""
        return self.ring.window(count, self.ranks.stage)

    @property
    def states(self) -> dict[int, RankView]:
        """Newest state of each rank that was heard."""
        return self.ranks.views

    @property
    def finished(self) -> bool:
        """Whether every rank said that it reached the end."""
        ends = [self.ended.get(rank) for rank in range(self.world)]
        return self.world > 0 and all(event is LifecycleEvent.FINISH for event in ends)

    @property
    def failed(self) -> bool:
        """Whether a rank said that it failed, or died without a word."""
        if LifecycleEvent.FAILURE in self.ended.values():
            return True
        return bool(self.gone)

    @property
    def gone(self) -> set[int]:
        """Ranks whose process vanished before they finished."""
        return self.ranks.gone - self.ended.keys()

    def is_gone(self, rank: int) -> bool:
        """Whether the process of `rank` vanished before it finished."""
        return rank in self.ranks.gone and rank not in self.ended

    def give_up(self) -> None:
        """Count the steps that some rank has not reported as they stand."""
        self._counted.give_up(self.step_history)

    def _is_over(self) -> bool:
        """Whether every rank ended or vanished."""
        if not 0 < self.world <= len(self.ended) + len(self.ranks.gone):
            return False
        return len(self.ended.keys() | self.ranks.gone) >= self.world

    def release(self) -> None:
        """Give the window back; steps that still arrive are refused, the step_history stays."""
        self.give_up()
        self.ring, self.baseline = StepRing(0), Baseline()
        self.collective_records = CollectiveRecords()
        self.numerics, self.memory, self.diagnoses = Numerics(), MemoryHistory(), Diagnoses()
        self.earlier, self.microbatches = None, Microbatches()

    @property
    def cells(self) -> int:
        """Window cells held, and what else `release` gives back, counted in cells."""
        held = (
            self.ring,
            self.collective_records,
            self.baseline,
            self.numerics,
            self.memory,
            self.microbatches,
        )
        earlier = 0 if self.earlier is None else self.earlier.cells
        return earlier + sum(each.cells for each in held)

    def silences(self, now_s: float) -> dict[str, float]:
        """Seconds since each node was heard, at monotonic `now_s`, while ranks of it should run.

        Ranks that others trained with but that were never heard stand under `unknown`.
        """
        heard: dict[str, float] = {}
        over = self.ranks.gone | self.ended.keys()
        for rank, view in self.states.items():
            if rank not in over:
                heard[view.node] = max(heard.get(view.node, 0.0), view.received_monotonic_s)
        known = set(self.states) | set(self.ended)
        if self.first_step_received_s is not None and self.states and len(known) < self.world:
            heard["unknown"] = self.first_step_received_s
        if not self.states:
            heard["unknown"] = self.received_monotonic_s
        return {node: now_s - at for node, at in heard.items()}

    def _set_world(self, world: int) -> None:
        if not self.world < world <= MAX_WORLD:
            return
        known, self.world = self.world, world
        self.ring = self.ring.grown(world)
        self.memory.resize(world)
        self.ranks.resize(world)
        for name in COLUMNS:
            sums = np.zeros(world)
            sums[:known] = self.rank_seconds.get(name, sums[:0])
            self.rank_seconds[name] = sums

    def _take_states(self, rows: Rows | None, node: str, received_monotonic_s: float) -> None:
        if rows is None or not len(rows):
            return
        possible = rows["world"][rows["world"] <= MAX_WORLD]
        self._set_world(int(possible.max(initial=0)))
        self.memory.add_states(rows)
        self.job_class = bytes(rows["job_class"][-1]).decode("utf-8", "replace")
        self.refused_records += self.ranks.add(rows, node, received_monotonic_s)

    def _take_lifecycle(self, rows: Rows | None, offset: int, node: str) -> None:
        for row in rows if rows is not None else ():
            try:
                event = LifecycleEvent(int(row["event"]))
            except ValueError:
                continue
            at = (int(row["time_ns"]) + offset) / NANOSECONDS
            if event is LifecycleEvent.START:
                self._set_world(int(row["value"]))
                self.began_s = min(self.began_s or at, at)
                if node in self.offsets:
                    began = int(row["time_ns"])
                    self.began_ns[node] = min(self.began_ns.get(node, began), began)
            elif event is LifecycleEvent.RESUME and row["value"] >= 0:
                self.resumed_from = int(row["value"])
            elif event is LifecycleEvent.SCHEDULE:
                self.schedule = schedule_of(row)
                continue
            elif event in (LifecycleEvent.FINISH, LifecycleEvent.FAILURE):
                self._end(int(row["rank"]), event)
            if len(self.lifecycle) < MAX_EVENTS:
                text = bytes(row["text"]).decode("utf-8", "replace")
                fact = Lifecycle(at, int(row["rank"]), event, int(row["value"]), text)
                self.lifecycle.append(fact)

    def _end(self, rank: int, event: LifecycleEvent) -> None:
        """A failure stays one whatever follows."""
        if 0 <= rank < MAX_WORLD and self.ended.get(rank) is not LifecycleEvent.FAILURE:
            self.ended[rank] = event

    def _take_steps(self, rows: Rows | None, offset: int) -> None:
        if rows is None:
            return
        usable = self.step_history.make_room(rows[validation.steps(rows, self.ring.world, offset)])
        self.refused_records += len(rows) - len(usable)
        fresh = self.ring.add(usable)
        if not len(fresh):
            return
        if self.first_step_received_s is None:
            self.first_step_received_s = self.received_monotonic_s
        self.step_history.add(fresh, offset)
        self.totals.add_rows(fresh)
        self._counted.advance(self.step_history, self.world)
        self.baseline.add(fresh, self.step_history.first, self.ring.world, self.collective_records)
        self.early_baseline.add(fresh)
        self.newest_s, self.earlier = self.step_history.newest_end_ns() / NANOSECONDS, None
        for name, sums in self.rank_seconds.items():
            np.add.at(sums, fresh["rank"], fresh[f"{name}_ns"] / NANOSECONDS)

    def _take_calls(self, rows: Rows | None, groups: Rows | None) -> None:
        """A released attempt keeps neither: it has a ring for no rank."""
        if groups is not None and self.ring.world == self.world:
            self.collective_records.add_groups(groups)
        if rows is not None:
            self.refused_records += self.collective_records.add(rows, self.ring.world)

    def _take_numbers(self, tables: Mapping[Kind, Rows]) -> None:
        if self.ring.world != self.world:  # released
            return
        if (rows := tables.get(Kind.NUMERICS)) is not None:
            self.refused_records += self.numerics.add(rows, self.world)
        if (rows := tables.get(Kind.MEMORY)) is not None:
            self.refused_records += self.memory.add_device(rows)
        if (rows := tables.get(Kind.MICROBATCH)) is not None:
            self.refused_records += self.microbatches.add(rows, self.world, self.ring.newest)

    def _take_checkpoints(self, rows: Rows | None, offset: int, node: str) -> None:
        if rows is not None:
            told = validation.checkpoints(rows, self.began_ns.get(node, 0))
            self.checkpoints_in_flight.add(told, self.world, offset)
            self.totals.add_checkpoints(checkpoints.apply(self.checkpoints, told))


class LiveJob:
    """All attempts of one job."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attempts: dict[int, Attempt] = {}
        self.totals = Totals()

    def apply(self, segment: Segment, heard: Received) -> None:
        """Take in one segment that was not seen before."""
        number = segment.key.attempt
        attempt = self.attempts.get(number)
        if attempt is None:
            for each in self.attempts.values():
                each.give_up()
            attempt = self.attempts[number] = Attempt(number, totals=self.totals)
            while len(self.attempts) > MAX_ATTEMPTS:
                del self.attempts[min(self.attempts)]
        elif attempt.begins_again(segment):
            attempt = self.attempts[number] = attempt.anew()
        attempt.apply(segment, heard)
        if self.cells > MAX_JOB_CELLS:
            self._release_oldest()

    def _release_oldest(self) -> None:
        for number in sorted(self.attempts)[:-1]:
            self.attempts[number].release()
            if self.cells <= MAX_JOB_CELLS:
                return

    @property
    def cells(self) -> int:
        """Window cells and collective rows held."""
        return sum(each.cells for each in self.attempts.values())

    @property
    def received_s(self) -> float:
        """When any of its attempts was heard last, Unix seconds."""
        return max(attempt.received_s for attempt in self.attempts.values())

    @property
    def newest_s(self) -> float:
        """Wall time of the newest step of any attempt, Unix seconds; 0 before the first."""
        return max(attempt.newest_s for attempt in self.attempts.values())

    @property
    def current(self) -> Attempt:
        """The newest attempt."""
        return self.attempts[max(self.attempts)]

    @property
    def before(self) -> Attempt | None:
        """What ran before the newest attempt while that one makes no progress, else None.

        A run of the same number counts only until that one fails, too.
        """
        newest = self.current
        if len(newest.step_history):
            return None
        if newest.earlier is not None:
            return None if newest.failed else newest.earlier
        numbers = sorted(self.attempts)[-2:-1]
        return self.attempts[numbers[0]] if numbers else None

    def ordered(self) -> list[tuple[Attempt, int | None]]:
        """Attempts in order, each with the step a later one resumed at (None: nothing lost)."""
        result: list[tuple[Attempt, int | None]] = []
        earliest: int | None = None
        for number in sorted(self.attempts, reverse=True):
            attempt = self.attempts[number]
            result.append((attempt, earliest))
            known = [step for step in (_restart_step(attempt), earliest) if step is not None]
            earliest = min(known, default=None)
        return result[::-1]


def _restart_step(attempt: Attempt) -> int | None:
    if attempt.resumed_from is not None:
        return attempt.resumed_from
    return attempt.step_history.first if len(attempt.step_history) else None
