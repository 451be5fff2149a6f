"""Schedule of the nodes' flushes, and their segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepwatch.agent.pace import FlushPace
from stepwatch.agent.stalls.alarm import LATE_MULTIPLE, LEAST_SECONDS
from stepwatch.faults.specs import Fault
from stepwatch.signals import wire
from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import SegmentKey

from .clocks import NodeClocks
from .faults import Hang, Kill
from .plan import AFTER_KILL_SECONDS, Plan, node_name
from .records import Groups, Part, Tables, lifecycle_table, start_tables, step_tables
from .states import Exit, Observer, asleep_since, exits
from .steps import NEVER, Step, StepModel

NODES_AT_ONCE = 64
"""Nodes that flush together, as many as an agent sends segments in a request.

The other nodes follow, spread over the interval.
"""
_POLLS = 4
"""Polls per flush, as of an agent with the default options."""


class Flush(NamedTuple):
    """Segments from nodes that flush at true time `true_ns`, with their count of rank-steps.

    `rank_steps` counts (rank, step) pairs. `is_last` marks the final flush from these nodes, the
    `part`-th part in the fleet.
    """

    part: int
    true_ns: int
    segments: list[bytes]
    rank_steps: int
    is_last: bool


class Fleet:
    """The nodes in `plan`; wall clocks show approximately `epoch_ns` at its beginning.

    `stop` ends the ranks early. `began_ns` holds the true start time of each fault that has begun,
    and `newest_step` the newest step that all ranks ended. Set `asked_seconds` to the flush
    interval that the collector requests, 0 if it requests none.
    """

    def __init__(
        self, plan: Plan, epoch_ns: int, spool: int, nodes_at_once: int = NODES_AT_ONCE
    ) -> None:
        noise = np.random.Generator(np.random.SFC64(plan.seed))
        self.plan = plan
        self.began_ns: dict[Fault, int] = {}
        self.newest_step = -1
        self.asked_seconds = 0.0
        self._pace = FlushPace(_POLLS, plan.flush_seconds / _POLLS)
        self._spool = spool
        self._model = StepModel(plan, noise)
        self._clocks = NodeClocks(plan.nodes, epoch_ns, noise)
        self._groups = Groups.from_plan(plan)
        self._observer = Observer(plan, self._clocks, self._groups, noise)
        firsts = range(0, plan.nodes, nodes_at_once)
        self._parts = [Part(first, min(first + nodes_at_once, plan.nodes)) for first in firsts]
        self._next_step = [0] * len(self._parts)
        self._flushed = [0] * len(self._parts)
        """Number of flushes so far, by part."""
        self._pending_steps: deque[Step] = deque()
        """Steps that some nodes have not sent yet, and the current step."""
        self._ended = Exit(np.full(plan.ranks, NEVER), np.full(plan.ranks, -1))
        self._until: int | None = None
        self._interrupted = False

    def stop(self) -> None:
        """Stop the run early: the next flush from each node is its last."""
        self._interrupted = True

    def flushes(self) -> Iterator[Flush]:
        """Yield every flush in time order; each node's last flush reports how its ranks end."""
        true_ns = flushes = interval_ns = 0
        while not self._is_over(true_ns):
            part = flushes % len(self._parts)
            flushes += 1
            if part == 0:
                self._pace.follow(self.asked_seconds)
                interval_ns = self._interval_ns(true_ns)
            true_ns += interval_ns // len(self._parts)
            self._advance(true_ns)
            yield self._flush(part, true_ns)
        self._interrupted |= isinstance(self._model.stopped_by, Hang)
        end = self._last_moment(true_ns)
        for part in range(len(self._parts)):
            yield self._flush(part, end, is_last=True)

    def _interval_ns(self, since_ns: int) -> int:
        """Return the time from flushes at `since_ns` to the next; an alarm brings them forward."""
        poll_ns = round(self.plan.flush_seconds / _POLLS * NANOSECONDS)

        def is_alarmed() -> bool:
            return self._is_alarmed(since_ns, since_ns + polls * poll_ns)

        polls = _POLLS
        while not self._pace.is_due(polls, is_alarmed):
            polls += 1
        return polls * poll_ns

    def _is_alarmed(self, since_ns: int, true_ns: int) -> bool:
        """Return whether a rank has ended since, or a step takes longer than usual now."""
        self._advance(true_ns)
        ends = self._ended.end_ns
        if ((ends > since_ns) & (ends <= true_ns)).any():
            return True
        late_seconds = max(LATE_MULTIPLE * self.plan.step_seconds, LEAST_SECONDS)
        began_ns = int(self._under_way(true_ns).began.min())
        return true_ns - began_ns > late_seconds * NANOSECONDS

    def _is_over(self, true_ns: int) -> bool:
        """Return whether only the end happens after `true_ns`."""
        return self._interrupted or (self._until is not None and true_ns >= self._until)

    def _last_moment(self, true_ns: int) -> int:
        """Return when the ranks end: after everything reported so far."""
        if self._interrupted or isinstance(self._model.stopped_by, Kill):
            return true_ns + 1
        return max(true_ns, self._pending_steps[-1].last_end) + 1

    def _ending(self) -> LifecycleEvent | None:
        """Return the event that ranks report at their end; None after a kill."""
        if isinstance(self._model.stopped_by, Kill):
            return None
        return LifecycleEvent.INTERRUPT if self._interrupted else LifecycleEvent.FINISH

    def _advance(self, true_ns: int) -> None:
        """Create the steps up to the current one at true time `true_ns`."""
        while self._until is None and (
            not self._pending_steps or self._pending_steps[-1].last_end <= true_ns
        ):
            step = self._model.step()
            self._pending_steps.append(step)
            self._note_faults(step)
            if self._model.is_over:
                self._until = self._end_of(step)
        sent = min(self._next_step)
        while self._pending_steps[0].number < sent and self._pending_steps[0].last_end <= true_ns:
            if len(self._pending_steps) == 1:
                break
            self._pending_steps.popleft()

    def _note_faults(self, step: Step) -> None:
        for fault in self.plan.faults:
            if fault not in self.began_ns and fault.active(step.number):
                stops = isinstance(fault, (Hang, Kill))
                began = asleep_since(step, fault) if stops else int(step.began.min())
                self.began_ns[fault] = began

    def _end_of(self, step: Step) -> int:
        """Return the true time at which the run ends, given its last step."""
        stopped_by = self._model.stopped_by
        if stopped_by is None:
            return step.last_end
        self._ended = exits(self.plan, step, stopped_by)
        longer = AFTER_KILL_SECONDS
        if isinstance(stopped_by, Hang):
            longer = self.plan.hang_seconds
        return self.began_ns[stopped_by] + round(longer * NANOSECONDS)

    def _under_way(self, true_ns: int) -> Step:
        """Return the oldest step that some rank has not ended at `true_ns`; else the last step."""
        return next(
            (step for step in self._pending_steps if step.last_end > true_ns),
            self._pending_steps[-1],
        )

    def _flush(self, number: int, true_ns: int, *, is_last: bool = False) -> Flush:
        part, plan, first = self._parts[number], self.plan, self._next_step[number]
        ranks = part.ranks(plan)
        steps = [
            step
            for step in self._pending_steps
            if step.number >= first and int(step.end[ranks].max()) <= true_ns
        ]
        self._flushed[number] += 1
        is_first = self._flushed[number] == 1
        tables = start_tables(part, plan, self._clocks, self._groups) if is_first else {}
        if steps:
            self._next_step[number] = steps[-1].number + 1
            self.newest_step = min(self._next_step) - 1
            tables |= step_tables(steps, part, plan, self._clocks, self._groups)
        now, stuck = self._under_way(true_ns), self._model.stopped_by
        tables |= self._observer.tables(part, true_ns, now, self._ended, stuck, self._pace)
        moment = np.array([true_ns])
        ending = self._ending() if is_last else None
        if ending is not None:
            ends = lifecycle_table(ending, part, plan, self._clocks.monotonic(part.nodes, moment))
            started = tables.get(Kind.LIFECYCLE)
            lifecycle = ends if started is None else np.concatenate([started, ends], axis=1)
            tables[Kind.LIFECYCLE] = lifecycle
        segments = self._encoded(tables, part, moment, self._flushed[number])
        count = len(steps) * (ranks.stop - ranks.start)
        return Flush(number, true_ns, segments, count, is_last)

    def _encoded(self, tables: Tables, part: Part, true_ns: Integers, sequence: int) -> list[bytes]:
        monotonic = self._clocks.monotonic(part.nodes, true_ns).tolist()
        wall = self._clocks.wall(part.nodes, true_ns).tolist()
        job, attempt, nodes = self.plan.job, self.plan.attempt, part.nodes.tolist()
        keys = [
            SegmentKey(job, attempt, node_name(node), self._spool + node, sequence)
            for node in nodes
        ]
        pairs = map(ClockPair, monotonic, wall)
        return wire.encode_alike([*zip(keys, pairs, strict=True)], tables)
