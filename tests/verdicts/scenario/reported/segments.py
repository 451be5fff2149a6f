"""The segments of a scenario's agents, in time order."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwatch.cli.simulate.rows import Group, agent_rows
from stepwatch.signals import wire
from stepwatch.signals.arrays import IntegerMatrix, Integers, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, make_rows
from stepwatch.signals.wire import SegmentKey
from tests.verdicts.scenario.course.exits import Exits
from tests.verdicts.scenario.course.steps import Step, Steps
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.plan import Scenario, node_name

from .rings import Written, length, ns, records
from .views import Views

DELIVERY_SECONDS, FLUSH_SECONDS = 0.05, 1.0
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
        self._groups = [*map(Group.from_members, timeline.layout.members)]
        self._numbers = np.array([*(group.number for group in self._groups), 0])
        """Numbers of the layout's groups, and 0 for none."""
        self._views = Views(scenario, timeline, exits, self._numbers)
        self._sequence = [0] * scenario.nodes
        self._ring = np.full(scenario.ranks, 2)
        """Number of the next record in each rank's ring."""
        self._pending: list[list[tuple[float, Kind, Rows]]] = [[] for _ in range(scenario.nodes)]
        self._written: list[deque[Written]] = [deque() for _ in range(scenario.nodes)]
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
        behind = np.arange(len(steps.end)) * records(steps)
        for node, ranks in enumerate(self._ranks):
            self._put(node, steps, ranks, self._ring[ranks, None] + behind)

    def _put(self, node: int, steps: Steps, ranks: Integers, first: IntegerMatrix) -> None:
        layout = self._timeline.layout
        self._written[node].append(Written(steps, ranks, first, self._numbers, layout))

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
                first = self._next(ranks, records(step))
                self._put(node, step.as_steps(), ranks, first[:, None])

    def _save(self, step: Step, began: Vector | None, stall: Vector, node: int) -> None:
        ranks = self._ranks[node]
        assert began is not None
        for moments, seconds in ((began, np.zeros(len(stall))), (began + stall, stall)):
            for rank in ranks[np.isfinite(moments[ranks])].tolist():
                rows = make_rows(
                    Kind.CHECKPOINT,
                    1,
                    rank=rank,
                    step=step.number - 1,
                    time_ns=ns(moments[rank]),
                    seq=self._next(np.array([rank]), 1),
                    event=CheckpointEvent.BEGIN,
                    stall_ns=length(seconds[rank]),
                )
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
            event, world, now_ns = LifecycleEvent.START, self._scenario.ranks, ns(0.0)
            columns = {"rank": ranks, "time_ns": now_ns, "event": event, "value": world}
            tables[Kind.LIFECYCLE] = [make_rows(Kind.LIFECYCLE, len(ranks), **columns)]
            tables[Kind.GROUP] = [
                group.rows(ranks[np.isin(ranks, group.members)], seq=1, time_ns=now_ns)
                for group in self._groups
            ]
        if ends := self._ends(ranks, now):
            tables.setdefault(Kind.LIFECYCLE, []).extend(ends)
        tables[Kind.RANK_STATE] = [self._views.ranks(self._recent, ranks, now, self._ring)]
        tables[Kind.HOST] = [self._views.host(ranks, now)]
        tables[Kind.AGENT] = [agent_rows(ns([now]), FLUSH_SECONDS)]
        packed = {kind: _by_rank(rows) for kind, rows in tables.items() if sum(map(len, rows))}
        key = SegmentKey(
            self._scenario.job, self._attempt, node_name(node), 1000 + node, self._sequence[node]
        )
        # The level for thousands of nodes: an agent's compression takes three times as long.
        alike = {kind: packed_rows[None] for kind, packed_rows in packed.items()}
        (segment,) = wire.encode_alike([(key, self._clock(node, now))], alike)
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
        while self._written[node]:
            written = self._written[node][0]
            for kind, rows in written.due(now):
                tables.setdefault(kind, []).append(rows)
            if not written.is_over:
                break
            self._written[node].popleft()
        return tables

    def _clock(self, node: int, now: float) -> ClockPair:
        off = self._scenario.telemetry.clock_seconds
        wrong = off[node] if off else 0.0
        return ClockPair(int(ns(now)), self._epoch_ns + round((now + wrong) * NANOSECONDS))

    def _ends(self, ranks: Any, now: float) -> list[Rows]:
        """Return each rank's report of its end or failure, once."""
        tables, event = list[Rows](), self._scenario.ends
        for rank in ranks.tolist():
            text, ended = self._exits.failure[rank], float(self._exits.end[rank])
            says = text or event is not None
            if not says or self._reported[rank] or ended > now or math.isinf(ended):
                continue
            self._reported[rank] = True
            rows = make_rows(
                Kind.LIFECYCLE,
                1,
                rank=rank,
                time_ns=ns(ended),
                seq=self._next(np.array([rank]), 1),
                event=LifecycleEvent.FAILURE if event is None else event,
                text=text.encode()[:56],
            )
            tables.append(rows)
        return tables


def _by_rank(parts: list[Rows]) -> Rows:
    rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
    ranks = rows["rank"]
    if (ranks[1:] >= ranks[:-1]).all():
        return rows
    return rows[np.argsort(ranks, kind="stable")]
