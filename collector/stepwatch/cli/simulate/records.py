"""The fleet's steps as rows: ring contents for some nodes, for all their ranks and steps at once.

Rows have the order in which an agent reads them: rank after rank, and step after step in each
rank. Tables have a first axis (nodes,): each element is the table in one node's segment.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import AnyRows, Integers
from stepwatch.signals.records import Kind, LifecycleEvent, make_rows

from .clocks import NodeClocks
from .plan import Plan
from .rows import Calls, Group, call_rows, step_rows
from .steps import COLLECTIVES, Collective, Step

AnyColumn = np.ndarray[tuple[int, ...], np.dtype[np.integer]]
AnyIntegers = np.ndarray[Any, np.dtype[np.int64]]
Table = np.ndarray[tuple[int, int], np.dtype[np.void]]
"""Rows of one kind, with shape (nodes, rows per node)."""
Tables = dict[Kind, Table]
TOKENS, MICROBATCHES = 32_768, 8


class Part(NamedTuple):
    """Nodes that flush together: the number of the first, and one after the last."""

    first: int
    end: int

    @property
    def nodes(self) -> Integers:
        """The nodes' numbers."""
        return np.arange(self.first, self.end)

    def ranks(self, plan: Plan) -> slice:
        """Return the nodes' ranks."""
        return slice(self.first * plan.ranks_per_node, self.end * plan.ranks_per_node)

    def node_ranks(self, plan: Plan) -> AnyIntegers:
        """Return each node's ranks (nodes, ranks per node)."""
        ranks = self.ranks(plan)
        return np.arange(ranks.start, ranks.stop).reshape(len(self.nodes), -1)


class Groups(NamedTuple):
    """Process groups: of all ranks, and of each node's ranks, with their numbers (nodes,)."""

    world: Group
    local: list[Group]
    numbers: Integers

    @classmethod
    def from_plan(cls, plan: Plan) -> Groups:
        """Return a plan's groups."""
        world, per_node = Group.from_members(range(plan.ranks)), plan.ranks_per_node
        local = [world] * plan.nodes
        if plan.nodes > 1 and per_node > 1:
            firsts = range(0, plan.ranks, per_node)
            local = [Group.from_members(range(rank, rank + per_node)) for rank in firsts]
        return cls(world, local, np.array([group.number for group in local]))

    def of_collective(self, collective: Collective, nodes: Integers) -> Integers:
        """Return the number (nodes,) of the group that a node's ranks call."""
        if collective.between_nodes:
            return np.full(len(nodes), self.world.number)
        return self.numbers[nodes]


def step_tables(
    steps: Sequence[Step], part: Part, plan: Plan, clocks: NodeClocks, groups: Groups
) -> Tables:
    """Return STEP and COLLECTIVE rows for some steps, and CURSOR rows at the read position."""
    nodes, per_node, ranks = part.nodes, plan.ranks_per_node, part.ranks(plan)
    shape = (len(nodes), per_node, len(steps))

    def column(value: Callable[[Step], Integers]) -> AnyIntegers:
        """Return a value from each step's ranks as (nodes, ranks per node, steps)."""
        return np.stack([value(step)[ranks] for step in steps]).T.reshape(shape)

    end_ns = clocks.monotonic(nodes[:, None, None], column(lambda step: step.end))
    waited = column(lambda step: step.release - step.arrive)
    transfers = np.array([step.transfers for step in steps])
    names = ("data", "forward", "backward", "optimizer", "other")
    spent = {name: column(operator.attrgetter(name)) for name in names}
    spent["collective"] = waited + transfers[:, 1:].sum(axis=1)
    collectives_end = end_ns - spent["optimizer"] - spent["other"]
    numbers = np.array([step.number for step in steps])
    rows = step_rows(
        *shape,
        rank=part.node_ranks(plan)[..., None],
        step=numbers,
        seq=sequence_numbers(numbers, plan) + plan.collectives,
        time_ns=end_ns,
        duration_ns=column(lambda step: step.end - step.began),
        spent_ns=spent,
        tokens=TOKENS,
        microbatches=MICROBATCHES,
        **{name: [getattr(step, name) for step in steps] for name in ("loss", "grad_norm")},
    )
    calls = []
    for index, collective in enumerate(COLLECTIVES[: plan.collectives]):
        exposed, longest = transfers[:, index], transfers[:, index] // collective.calls
        arrival = collectives_end - transfers[:, index:].sum(axis=1)
        if index == 0:  # the only one in which ranks wait for each other
            longest = waited - exposed + longest
            exposed, arrival = waited, collectives_end - spent["collective"]
        group = groups.of_collective(collective, nodes)[:, None, None]
        records, nbytes = plan.collectives - index, collective.nbytes
        call = Calls(
            records, collective.op, group, collective.calls, nbytes, arrival, exposed, longest
        )
        calls.append(call)
    tables = {
        Kind.STEP: rows,
        Kind.COLLECTIVE: call_rows(rows, calls),
        Kind.CURSOR: _cursors(rows),
    }
    return {kind: table.reshape(len(nodes), -1) for kind, table in tables.items() if table.size}


def sequence_numbers(steps: AnyColumn, plan: Plan) -> AnyIntegers:
    """Return the ring number of each step's first record; START and groups precede them."""
    return 4 + steps.astype(np.int64) * (plan.collectives + 1)


def _cursors(rows: AnyRows) -> AnyRows:
    """Return one CURSOR row per rank, after its newest step."""
    newest = rows[:, :, -1]
    ring_id = (newest["rank"].astype(np.uint64) + np.uint64(1)) * np.uint64(RING_STRIDE)
    return make_rows(
        Kind.CURSOR,
        *newest.shape,
        rank=newest["rank"],
        ring_id=ring_id,
        next_seq=newest["seq"] + 1,
    )


RING_STRIDE = 0x9E3779B97F4A7C15 >> 1
"""Odd, so that ranks multiplied by it give ring ids that differ in all bits."""


def start_tables(part: Part, plan: Plan, clocks: NodeClocks, groups: Groups) -> Tables:
    """Return the records before a rank's first step: its start and its groups."""
    time_ns, ranks = clocks.monotonic(part.nodes, np.zeros(1, np.int64)), part.node_ranks(plan)
    started = lifecycle_table(LifecycleEvent.START, part, plan, time_ns)
    started["value"] = plan.ranks
    local = zip(groups.local[part.first : part.end], ranks, time_ns, strict=True)
    parts = [
        groups.world.rows(ranks, seq=2, time_ns=time_ns[:, None]),
        np.stack([group.rows(members, seq=3, time_ns=now) for group, members, now in local]),
    ]
    by_rank = np.stack(parts, axis=-1).reshape(len(ranks), -1)
    return {Kind.LIFECYCLE: started, Kind.GROUP: by_rank}


def lifecycle_table(event: LifecycleEvent, part: Part, plan: Plan, monotonic_ns: Integers) -> Table:
    """Return one LIFECYCLE row per rank, at `monotonic_ns` (nodes,) on its node."""
    ranks = part.node_ranks(plan)
    moments = monotonic_ns[:, None]
    return make_rows(
        Kind.LIFECYCLE, *ranks.shape, rank=ranks, event=event, time_ns=moments, value=0
    )
