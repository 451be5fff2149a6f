"""The segments of a scenario's agents, in time order."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwatch.hooks.communication.groups import describe, group_number
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows, Vector
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent
from stepwatch.signals.wire import SegmentKey
from tests.verdicts.scenario.course.exits import Exits
from tests.verdicts.scenario.course.program import MICROBATCHES
from tests.verdicts.scenario.course.steps import Step, Steps
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.plan import Scenario, node_name

from .rings import (
    CallRows,
    RingRows,
    Written,
    blank,
    join_written,
    length,
    ns,
    records,
    step_rows,
)
from .views import Views

DELIVERY_SECONDS = 0.05
_NOTHING = Steps(0, np.zeros((0, 1)), {}, [], [], [], np.zeros((0, 1)), np.zeros((0, 1)))
_KEPT_STEPS = 4
"""Newest steps in which a rank's place is looked up; ranks are at most one step apart."""


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
        self._blocks = timeline.blocks()
        self._under_way, self._consumed = _NOTHING, 0
        """Steps that were made at once, and how many of them the ranks have reached."""
        self._over = np.zeros(0)
        """When the first rank ended each step."""
        self._recent: deque[Step] = deque(maxlen=_KEPT_STEPS)
        self._numbers = [group_number(list(members)) for members in timeline.layout.members]
        self._views = Views(scenario, timeline, exits, self._numbers)
        self._sequence = [0] * scenario.nodes
        self._ring = np.full(scenario.ranks, 2)
        """Number of the next record in each rank's ring."""
        self._pending: list[list[tuple[float, Kind, Rows]]] = [[] for _ in range(scenario.nodes)]
        self._written: list[deque[_Rings]] = [deque() for _ in range(scenario.nodes)]
        self._calls = CallRows(self._numbers)
        per_node = scenario.ranks_per_node
        self._ranks = [
            np.arange(node * per_node, (node + 1) * per_node) for node in range(scenario.nodes)
        ]
        self._reported = np.zeros(scenario.ranks, dtype=bool)

    def deliveries(self, every: int = 1) -> Iterator[tuple[float, bytes]]:
        """Yield the second that is over and the segments that arrived, every `every` seconds.

        An agent flushes once a second. With a larger `every`, one delivery holds everything since
        the last one.
        """
        waiting: dict[int, list[bytes]] = defaultdict(list)
        for second in range(int(self._scenario.seconds) + 1):
            for sent, node, arrives in sorted(self._arrivals(second, every)):
                waiting[arrives].append(self._flush(node, sent))
            if second % every == 0:
                yield second + 1.0, b"".join(waiting.pop(second, []))

    def _arrivals(self, second: int, every: int) -> Iterator[tuple[float, int, int]]:
        """Yield moments in a second at which nodes send, nodes, and seconds of arrival."""
        for node in range(self._scenario.nodes):
            # Agents of different nodes flush at different moments.
            under_way = self._delay(node) - (0.37 * (node + 1)) % 1.0
            arrives = every * math.ceil((second + under_way) / every)
            sent = arrives - under_way
            if second <= sent < second + 1.0 and self._is_there(node, sent):
                yield sent, node, arrives

    def _is_there(self, node: int, now: float) -> bool:
        telemetry = self._scenario.telemetry
        killed = node == telemetry.killed_node and now >= telemetry.killed_at
        return not killed and now < self._exits.lost[node]

    def _delay(self, node: int) -> float:
        telemetry = self._scenario.telemetry
        lateness = telemetry.late_seconds if node == telemetry.late_node else 0.0
        return DELIVERY_SECONDS + lateness

    def _advance(self, now: float) -> None:
        """Make the steps up to the one in progress at `now`."""
        while not self._recent or float(self._recent[-1].end.min()) <= now:
            if self._consumed < len(self._under_way.end):
                self._take(now)
                continue
            block = next(self._blocks, None)
            if block is None:
                return
            if isinstance(block, Steps):
                self._under_way, self._consumed = block, 0
                self._over = block.end.min(axis=1)
                self._write_all(block)
                continue
            self._recent.append(block)
            self._views.note(block.as_steps(), slice(None))
            self._write(block)

    def _take(self, now: float) -> None:
        """Consume the steps that ranks have reached at `now`."""
        begin, steps = self._consumed, self._under_way
        over = int(np.searchsorted(self._over, now, side="right"))
        self._consumed = end = min(max(begin, over) + 1, len(steps.end))
        self._recent.extend(map(steps.step, range(max(begin, end - _KEPT_STEPS), end)))
        self._views.note(steps, slice(begin, end))
        self._ring += (end - begin) * records(steps)

    def _write_all(self, steps: Steps) -> None:
        """Put the records of uninterrupted steps into the rings: all ranks end them."""
        behind = np.arange(len(steps.end))[:, None] * records(steps)
        for node, ranks in enumerate(self._ranks):
            last = steps.end[:, ranks].max(axis=1)
            written = Written(steps, ranks, self._ring[ranks] + behind, last)
            self._written[node].append(_Rings(written))

    def _write(self, step: Step) -> None:
        """Put a step's records into the rings of the ranks that end it."""
        ended = (step.end <= self._exits.end) & np.isfinite(step.end)
        all_ended = bool(ended.all())
        for node, node_ranks in enumerate(self._ranks):
            if step.stall is not None:
                self._save(step, step.saved_from, step.stall, node)
            ranks = (
                node_ranks
                if all_ended or ended[node_ranks].all()
                else node_ranks[ended[node_ranks]]
            )
            if len(ranks):
                first = self._next(ranks, records(step))[None]
                last = step.end[ranks].max(keepdims=True)
                self._written[node].append(_Rings(Written(step.as_steps(), ranks, first, last)))

    def _save(self, step: Step, began: Vector | None, stall: Vector, node: int) -> None:
        ranks = self._ranks[node]
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

    def _flush(self, node: int, now: float) -> bytes:
        self._advance(now)
        ranks = self._ranks[node]
        self._sequence[node] += 1
        tables: dict[Kind, list[Rows]] = self._due(node, now)
        if self._sequence[node] == 1:
            tables[Kind.LIFECYCLE] = [self._starts(ranks)]
            tables[Kind.GROUP] = [self._groups(ranks)]
        ends = self._ends(ranks, now)
        if len(ends):
            tables.setdefault(Kind.LIFECYCLE, []).append(ends)
        tables[Kind.RANK_STATE] = [self._views.ranks(self._recent, ranks, now, self._ring)]
        tables[Kind.HOST] = [self._views.host(node, now)]
        tables[Kind.AGENT] = [self._views.agent(now)]
        packed = {kind: _by_rank(rows) for kind, rows in tables.items() if sum(map(len, rows))}
        key = SegmentKey(
            self._scenario.job, self._attempt, node_name(node), 1000 + node, self._sequence[node]
        )
        # The level for thousands of nodes: an agent's compression takes three times as long.
        rows = {kind: packed_rows[None] for kind, packed_rows in packed.items()}
        (segment,) = wire.encode_alike([(key, self._clock(node, now))], rows)
        return segment

    def _due(self, node: int, now: float) -> dict[Kind, list[Rows]]:
        """Return the rows that a node's ranks wrote up to `now` and that were not sent yet."""
        tables: dict[Kind, list[Rows]] = {}
        pending, self._pending[node] = self._pending[node], []
        for moment, kind, rows in pending:
            if moment <= now:
                tables.setdefault(kind, []).append(rows)
            else:
                self._pending[node].append((moment, kind, rows))
        due = list[tuple[_Rings, slice]]()
        while self._written[node] and len(steps := self._written[node][0].due(now)):
            due.append((self._written[node][0], slice(steps.start, steps.stop)))
            if not self._written[node][0].is_over:
                break
            self._written[node].popleft()
        for _, run in itertools.groupby(due, key=lambda entry: entry[0].kind()):
            self._add(tables, [*run])
        return tables

    def _add(self, tables: dict[Kind, list[Rows]], due: list[tuple[_Rings, slice]]) -> None:
        """Add the rows of steps with one kind."""
        rings, steps = due[0]
        if len(due) > 1:
            rings = _Rings(join_written([ring.written for ring, _ in due]))
            steps = slice(0, len(due))
        for kind, ring_rows in rings.rows(self._calls, self._timeline.layout.stages).items():
            tables.setdefault(kind, []).append(ring_rows.select(steps))

    def _clock(self, node: int, now: float) -> ClockPair:
        off = self._scenario.telemetry.clock_seconds
        wrong = off[node] if off else 0.0
        return ClockPair(int(ns(now)), self._epoch_ns + round((now + wrong) * NANOSECONDS))

    def _starts(self, ranks: Any) -> Rows:
        rows = blank(Kind.LIFECYCLE, len(ranks))
        rows["rank"], rows["seq"], rows["time_ns"] = ranks, 0, ns(0.0)
        rows["event"], rows["value"] = LifecycleEvent.START, self._scenario.ranks
        return rows

    def _groups(self, ranks: Any) -> Rows:
        tables = []
        for number, members in zip(self._numbers, self._timeline.layout.members, strict=True):
            local_ranks = [rank for rank in ranks.tolist() if rank in members]
            rows = blank(Kind.GROUP, len(local_ranks))
            rows["rank"], rows["seq"], rows["time_ns"] = local_ranks, 1, ns(0.0)
            rows["group"], rows["size"] = number, len(members)
            rows["index"] = [members.index(rank) for rank in local_ranks]
            rows["text"] = describe(list(members)).encode()[:48]
            tables.append(rows)
        return np.concatenate(tables)

    def _ends(self, ranks: Any, now: float) -> Rows:
        """Return each rank's report of its end or failure, once."""
        tables, event = [], self._scenario.ends
        for rank in ranks.tolist():
            text, ended = self._exits.failure[rank], float(self._exits.end[rank])
            says = text or event is not None
            if not says or self._reported[rank] or ended > now or math.isinf(ended):
                continue
            self._reported[rank] = True
            rows = blank(Kind.LIFECYCLE, 1)
            rows["rank"], rows["time_ns"] = rank, ns(ended)
            rows["seq"] = self._next(np.array([rank]), 1)
            rows["event"] = LifecycleEvent.FAILURE if event is None else event
            rows["text"] = text.encode()[:56]
            tables.append(rows)
        return np.concatenate(tables) if tables else blank(Kind.LIFECYCLE, 0)


class _Rings:
    """Steps in the rings of a node's ranks, partly sent."""

    def __init__(self, written: Written) -> None:
        self.written = written
        self._sent_steps = 0
        self._rows: dict[Kind, RingRows] = {}

    def kind(self) -> tuple[object, ...]:
        """Return the properties that steps must share so that their rows are made together.

        Several steps already have common rows, so they stay apart.
        """
        return self.written.kind() if len(self.written.end) == 1 else (id(self),)

    @property
    def is_over(self) -> bool:
        """Whether all steps were sent."""
        return self._sent_steps == len(self.written.end)

    def due(self, now: float) -> range:
        """Return the steps that were written by `now`, and count them as sent."""
        begin = self._sent_steps
        self._sent_steps = max(begin, int(np.searchsorted(self.written.end, now, side="right")))
        return range(begin, self._sent_steps)

    def rows(self, calls: CallRows, stages: int) -> dict[Kind, RingRows]:
        """Return the STEP and COLLECTIVE rows of all steps."""
        if not self._rows:
            parts = MICROBATCHES if stages > 1 else 1
            self._rows[Kind.STEP] = step_rows(self.written, parts)
            self._rows[Kind.COLLECTIVE] = calls.rows(self.written)
        return self._rows


def _by_rank(parts: list[Rows]) -> Rows:
    rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
    ranks = rows["rank"]
    if (ranks[1:] >= ranks[:-1]).all():
        return rows
    return rows[np.argsort(ranks, kind="stable")]
