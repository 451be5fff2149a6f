"""The segments that the agents of a scenario send, in the order of time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from stepwatch.hooks.collectives.groups import describe, group_number
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows, Vector
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import (
    DTYPES,
    UNKNOWN,
    CheckpointEvent,
    Kind,
    LifecycleEvent,
    StepFlag,
)
from stepwatch.signals.wire import Segment, SegmentKey
from tests.verdicts.scenario.course.exits import Exits
from tests.verdicts.scenario.course.timeline import Step, Timeline
from tests.verdicts.scenario.plan import Scenario, node_name

from .views import Views

FLUSH_SECONDS, DELIVERY_SECONDS = 1.0, 0.05
BOOTED_SECONDS = 40_000.0
_KEPT_STEPS = 4
"""Steps that are looked at for where ranks stand; ranks are at most one step apart."""


class Delivery(NamedTuple):
    """A segment that arrives `at` seconds after the ranks began."""

    at: float
    body: bytes


def blank(kind: Kind, count: int) -> Rows:
    """Rows in which every field is unknown."""
    row = np.zeros((), dtype=DTYPES[kind])
    for name, unknown in UNKNOWN[kind].items():
        row[name] = unknown
    return np.full(count, row)


def ns(seconds: Any) -> Any:
    """Nanoseconds on a node's monotonic clock; shapes follow the argument."""
    return ((np.asarray(seconds) + BOOTED_SECONDS) * NANOSECONDS).astype(np.uint64)


def length(seconds: Any) -> Any:
    """A duration in nanoseconds."""
    return (np.maximum(np.asarray(seconds), 0.0) * NANOSECONDS).astype(np.uint64)


class Agents:
    """All agents of a scenario; wall clocks show `epoch_ns` when the ranks begin."""

    def __init__(
        self,
        scenario: Scenario,
        timeline: Timeline,
        exits: Exits,
        epoch_ns: int,
        attempt: int = 0,
    ) -> None:
        self._scenario, self._timeline, self._exits = scenario, timeline, exits
        self._epoch_ns, self._attempt = epoch_ns, attempt
        self._steps = timeline.steps()
        self._known: deque[Step] = deque(maxlen=_KEPT_STEPS)
        self._numbers = [group_number(list(members)) for members in timeline.layout.members]
        self._views = Views(scenario, timeline, exits, self._numbers)
        self._sequence = [0] * scenario.nodes
        self._ring = np.full(scenario.ranks, 2)
        """Number of the next record of each rank's ring."""
        self._pending: list[list[tuple[float, Kind, Rows]]] = [[] for _ in range(scenario.nodes)]
        self._reported = np.zeros(scenario.ranks, dtype=bool)

    def deliveries(self) -> Iterator[list[Delivery]]:
        """What arrives in each second of the scenario, oldest first."""
        late: list[Delivery] = []
        for second in range(int(self._scenario.seconds) + 1):
            for node in range(self._scenario.nodes):
                # Agents of different nodes flush at different moments.
                at = second + (0.37 * (node + 1)) % 1.0
                if self._is_there(node, at):
                    late.append(Delivery(at + self._delay(node), self._flush(node, at)))
            due = sorted(each for each in late if each.at < second + 1.0)
            late = [each for each in late if each.at >= second + 1.0]
            yield due

    def _is_there(self, node: int, at: float) -> bool:
        telemetry = self._scenario.telemetry
        killed = node == telemetry.killed_node and at >= telemetry.killed_at
        return not killed and at < self._exits.lost[node]

    def _delay(self, node: int) -> float:
        telemetry = self._scenario.telemetry
        late = telemetry.late_seconds if node == telemetry.late_node else 0.0
        return DELIVERY_SECONDS + late

    def _advance(self, at: float) -> None:
        """Make the steps up to those that are under way at `at`."""
        while not self._known or float(self._known[-1].end.min()) <= at:
            step = next(self._steps, None)
            if step is None:
                return
            self._known.append(step)
            self._views.note(step)
            self._write(step)

    def _write(self, step: Step) -> None:
        """Put a step's records into the rings, as far as ranks come to them."""
        alive = step.end <= self._exits.at
        for node in range(self._scenario.nodes):
            each = self._scenario.ranks_per_node
            ranks = np.arange(node * each, (node + 1) * each)
            ranks = ranks[alive[ranks] & np.isfinite(step.end[ranks])]
            if step.stall is not None:
                self._save(step, step.saved_from, step.stall, node)
            if len(ranks):
                self._pending[node] += [
                    (float(step.end[ranks].max()), Kind.STEP, self._step_rows(step, ranks)),
                    (
                        float(step.end[ranks].max()),
                        Kind.COLLECTIVE,
                        self._collective_rows(step, ranks),
                    ),
                ]

    def _save(self, step: Step, began: Vector | None, stall: Vector, node: int) -> None:
        each = self._scenario.ranks_per_node
        ranks = np.arange(node * each, (node + 1) * each)
        assert began is not None
        for moments, seconds in ((began, np.zeros(len(stall))), (began + stall, stall)):
            for rank in ranks[np.isfinite(moments[ranks])].tolist():
                rows = blank(Kind.CHECKPOINT, 1)
                rows["rank"], rows["step"] = rank, step.number - 1
                rows["time_ns"], rows["seq"] = ns(moments[rank]), self._next(np.array([rank]), 1)
                rows["event"], rows["stall_ns"] = CheckpointEvent.BEGIN, length(seconds[rank])
                rows["durable_ns"] = rows["bytes"] = 0
                self._pending[node].append((float(moments[rank]), Kind.CHECKPOINT, rows))

    def _next(self, ranks: Any, count: int) -> Any:
        first = self._ring[ranks].copy()
        self._ring[ranks] += count
        return first

    def _step_rows(self, step: Step, ranks: Any) -> Rows:
        rows = blank(Kind.STEP, len(ranks))
        rows["rank"], rows["step"], rows["time_ns"] = ranks, step.number, ns(step.end[ranks])
        rows["seq"] = self._next(ranks, 1 + len(step.calls)) + len(step.calls)
        rows["duration_ns"] = length((step.end - step.began)[ranks])
        for name in rows.dtype.names or ():
            if name.endswith("_ns") and name[:-3] in step.spent:
                rows[name] = length(step.spent[name[:-3]][ranks])
        rows["tokens"], rows["microbatches"] = step.tokens[ranks], 1
        flags = StepFlag.FIRST if step.number == 0 else StepFlag(0)
        rows["flags"] = flags | (StepFlag.AFTER_PAUSE if step.after_pause else StepFlag(0))
        rows["loss"] = 1.7 + 6.0 * (step.number + 10.0) ** -0.3
        rows["grad_norm"] = 1.0
        return rows

    def _collective_rows(self, step: Step, ranks: Any) -> Rows:
        """One row for each group and operation of a step, however many calls that are."""
        made = []
        seen: dict[tuple[Any, ...], Rows] = {}
        for number, call in enumerate(step.calls):
            groups = np.array(call.groups)[ranks]
            numbers = np.array([self._numbers[group] for group in groups])
            key = (call.op, *groups.tolist())
            if key in seen:
                _add(seen[key], length(call.exposed[ranks]), call.nbytes)
                continue
            rows = seen[key] = blank(Kind.COLLECTIVE, len(ranks))
            rows["rank"], rows["step"], rows["time_ns"] = ranks, step.number, ns(step.end[ranks])
            rows["seq"] = self._ring[ranks] - 1 - len(step.calls) + number
            rows["group"], rows["op"], rows["count"] = numbers, call.op, 1
            rows["bytes"] = call.nbytes
            rows["exposed_ns"] = rows["longest_ns"] = length(call.exposed[ranks])
            rows["first_arrival_ns"] = ns(call.arrived[ranks])
            made.append(rows)
        return np.concatenate(made) if made else blank(Kind.COLLECTIVE, 0)

    def _flush(self, node: int, at: float) -> bytes:
        self._advance(at)
        due = [each for each in self._pending[node] if each[0] <= at]
        self._pending[node] = [each for each in self._pending[node] if each[0] > at]
        each = self._scenario.ranks_per_node
        ranks = np.arange(node * each, (node + 1) * each)
        self._sequence[node] += 1
        tables: dict[Kind, list[Rows]] = {}
        if self._sequence[node] == 1:
            tables[Kind.LIFECYCLE] = [self._starts(ranks)]
            tables[Kind.GROUP] = [self._groups(ranks)]
        for _, kind, rows in due:
            tables.setdefault(kind, []).append(rows)
        failures = self._failures(ranks, at)
        if len(failures):
            tables.setdefault(Kind.LIFECYCLE, []).append(failures)
        tables[Kind.RANK_STATE] = [self._views.ranks(self._known, ranks, at, self._ring)]
        tables[Kind.HOST] = [self._views.host(node, at)]
        tables[Kind.AGENT] = [self._views.agent(at)]
        packed = {
            kind: np.concatenate(rows)[np.argsort(np.concatenate(rows)["rank"], kind="stable")]
            for kind, rows in tables.items()
            if sum(map(len, rows))
        }
        key = SegmentKey(
            self._scenario.job, self._attempt, node_name(node), 1000 + node, self._sequence[node]
        )
        return wire.encode(Segment(key=key, clock=self._clock(node, at), tables=packed))

    def _clock(self, node: int, at: float) -> ClockPair:
        off = self._scenario.telemetry.clock_seconds
        wrong = off[node] if off else 0.0
        return ClockPair(int(ns(at)), self._epoch_ns + round((at + wrong) * NANOSECONDS))

    def _starts(self, ranks: Any) -> Rows:
        rows = blank(Kind.LIFECYCLE, len(ranks))
        rows["rank"], rows["seq"], rows["time_ns"] = ranks, 0, ns(0.0)
        rows["event"], rows["value"] = LifecycleEvent.START, self._scenario.ranks
        return rows

    def _groups(self, ranks: Any) -> Rows:
        found = []
        for number, members in zip(self._numbers, self._timeline.layout.members, strict=True):
            mine = [rank for rank in ranks.tolist() if rank in members]
            rows = blank(Kind.GROUP, len(mine))
            rows["rank"], rows["seq"], rows["time_ns"] = mine, 1, ns(0.0)
            rows["group"], rows["size"] = number, len(members)
            rows["index"] = [members.index(rank) for rank in mine]
            rows["text"] = describe(list(members)).encode()[:48]
            found.append(rows)
        return np.concatenate(found)

    def _failures(self, ranks: Any, at: float) -> Rows:
        """What ranks report of how they fail, once."""
        found = []
        for rank in ranks.tolist():
            text, ended = self._exits.failure[rank], float(self._exits.at[rank])
            if not text or self._reported[rank] or ended > at or math.isinf(ended):
                continue
            self._reported[rank] = True
            rows = blank(Kind.LIFECYCLE, 1)
            rows["rank"], rows["time_ns"] = rank, ns(ended)
            rows["seq"] = self._next(np.array([rank]), 1)
            rows["event"], rows["text"] = LifecycleEvent.FAILURE, text.encode()[:56]
            found.append(rows)
        return np.concatenate(found) if found else blank(Kind.LIFECYCLE, 0)


def _add(rows: Rows, exposed: Any, nbytes: int) -> None:
    rows["count"] += 1
    rows["bytes"] += nbytes
    rows["exposed_ns"] += exposed
    rows["longest_ns"] = np.maximum(rows["longest_ns"], exposed)
