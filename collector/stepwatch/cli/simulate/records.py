"""Steps as rows: ring contents for some nodes, for all their ranks and steps at once.

Rows have the order in which an agent reads them: rank after rank, and step after step in each
rank. Tables have a first axis (nodes,): each element is the table in one node's segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.hooks.communication.groups import describe, group_number
from stepwatch.signals.arrays import IntegerMatrix, Integers
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind, LifecycleEvent

from .clocks import NodeClocks
from .plan import Plan
from .steps import COLLECTIVES, Step

AnyColumn = np.ndarray[tuple[int, ...], np.dtype[np.integer]]
AnyIntegers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
AnyRows = np.ndarray[tuple[int, ...], np.dtype[np.void]]
"""Rows with several axes; each user documents its axes."""
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


class Groups(NamedTuple):
    """Process group numbers: for all ranks, and for each node's ranks (nodes,)."""

    world: int
    local: Integers

    @classmethod
    def from_plan(cls, plan: Plan) -> Groups:
        """Return a plan's groups, numbered as the hooks number them."""
        per_node = plan.ranks_per_node
        world = group_number([*range(plan.ranks)])
        ranks = (range(node * per_node, (node + 1) * per_node) for node in range(plan.nodes))
        numbers = [group_number([*members]) for members in ranks]
        return cls(world, np.array(numbers if plan.nodes > 1 and per_node > 1 else [world]))

    def of_collective(self, index: int, nodes: Integers) -> Integers:
        """Return the group number (nodes,) for one entry in `COLLECTIVES`."""
        if COLLECTIVES[index].between_nodes or len(self.local) == 1:
            return np.full(len(nodes), self.world)
        return self.local[nodes]


def blank(kind: Kind, *shape: int) -> AnyRows:
    """Return rows in which every field is unknown."""
    row = np.zeros((), dtype=DTYPES[kind])
    for name, unknown in UNKNOWN[kind].items():
        row[name] = unknown
    return np.full(shape, row)


def step_tables(
    steps: Sequence[Step], part: Part, plan: Plan, clocks: NodeClocks, groups: Groups
) -> Tables:
    """Return STEP and COLLECTIVE rows for some steps, and CURSOR rows at the read position."""
    per_node, ranks = plan.ranks_per_node, part.ranks(plan)
    shape = (len(part.nodes), per_node, len(steps))

    def column(value: Callable[[Step], Integers]) -> Integers:
        """Return a value from each step's ranks as (nodes, ranks per node, steps)."""
        stacked: IntegerMatrix = np.stack([value(step)[ranks] for step in steps])
        return np.asarray(stacked.T.reshape(shape))

    rows = np.zeros(shape, dtype=DTYPES[Kind.STEP])
    later = np.array([sum(step.transfers[1:]) for step in steps])
    waited = column(lambda step: step.release - step.arrive)
    rows["rank"] = np.arange(ranks.start, ranks.stop).reshape(len(part.nodes), per_node, 1)
    rows["step"] = [step.number for step in steps]
    rows["seq"] = sequence_numbers(rows["step"], plan) + plan.collectives
    rows["time_ns"] = clocks.monotonic(part.nodes[:, None, None], column(lambda step: step.end))
    rows["duration_ns"] = column(lambda step: step.end - step.began)
    for name in ("data", "forward", "backward", "optimizer", "other"):
        rows[f"{name}_ns"] = column(lambda step, name=name: getattr(step, name))  # type: ignore[misc]
    rows["collective_ns"] = waited + later
    rows["tokens"], rows["microbatches"] = TOKENS, MICROBATCHES
    for name in ("flags", "loss", "grad_norm"):
        rows[name] = [getattr(step, name) for step in steps]
    tables = {
        Kind.STEP: rows.reshape(len(part.nodes), -1),
        Kind.COLLECTIVE: _collectives(rows, steps, waited, part, plan, groups),
        Kind.CURSOR: _cursors(rows),
    }
    return {kind: table for kind, table in tables.items() if table.size}


def sequence_numbers(steps: AnyColumn, plan: Plan) -> AnyIntegers:
    """Return the ring number of each step's first record; START and groups precede them."""
    return 4 + steps.astype(np.int64) * (plan.collectives + 1)


def _collectives(
    steps_rows: AnyRows,
    steps: Sequence[Step],
    waited: Integers,
    part: Part,
    plan: Plan,
    groups: Groups,
) -> Table:
    """Return COLLECTIVE rows for the steps in `steps_rows` (nodes, ranks per node, steps)."""
    rows = np.zeros((*steps_rows.shape, plan.collectives), dtype=DTYPES[Kind.COLLECTIVE])
    for name in ("rank", "step", "time_ns"):
        rows[name] = steps_rows[name][..., None]
    first = sequence_numbers(steps_rows["step"], plan)
    rows["seq"] = first[..., None] + np.arange(plan.collectives)
    transfers = np.array([step.transfers for step in steps])
    rows["exposed_ns"] = transfers
    rows["exposed_ns"][..., 0] = waited
    calls = [collective.calls for collective in COLLECTIVES[: plan.collectives]]
    rows["longest_ns"] = rows["exposed_ns"] // np.array(calls)
    rows["longest_ns"][..., 0] = waited - transfers[:, 0] + transfers[:, 0] // calls[0]
    collectives_end = steps_rows["time_ns"] - steps_rows["optimizer_ns"] - steps_rows["other_ns"]
    remaining_ns = np.cumsum(transfers[:, ::-1], axis=1)[:, ::-1].astype(np.uint64)
    rows["first_arrival_ns"] = collectives_end[..., None] - remaining_ns
    rows["first_arrival_ns"][..., 0] = collectives_end - steps_rows["collective_ns"]
    for index, collective in enumerate(COLLECTIVES[: plan.collectives]):
        numbers = groups.of_collective(index, part.nodes)[:, None, None]
        rows["group"][..., index] = numbers
        rows["op"][..., index], rows["count"][..., index] = collective.op, collective.calls
        rows["bytes"][..., index] = collective.nbytes
    return rows.reshape(len(part.nodes), -1)


def _cursors(rows: AnyRows) -> Table:
    """Return one CURSOR row per rank, after its newest step."""
    newest = rows[:, :, -1]
    cursors = np.zeros(newest.shape, dtype=DTYPES[Kind.CURSOR])
    cursors["rank"] = newest["rank"]
    cursors["ring_id"] = (newest["rank"].astype(np.uint64) + np.uint64(1)) * np.uint64(RING_STRIDE)
    cursors["next_seq"] = newest["seq"] + 1
    return np.asarray(cursors).reshape(newest.shape[0], -1)


RING_STRIDE = 0x9E3779B97F4A7C15 >> 1
"""Odd, so that ranks multiplied by it give ring ids that differ in all bits."""


def start_tables(part: Part, plan: Plan, clocks: NodeClocks, groups: Groups) -> Tables:
    """Return the records before a rank's first step: its start and its groups."""
    ranks = np.arange(plan.ranks)[part.ranks(plan)].reshape(len(part.nodes), -1)
    started = lifecycle_table(
        LifecycleEvent.START, part, plan, clocks.monotonic(part.nodes, np.zeros(1, np.int64))
    )
    started["value"] = plan.ranks
    members = [groups.of_collective(0, part.nodes), groups.of_collective(1, part.nodes)]
    rows = np.zeros((*ranks.shape, len(members)), dtype=DTYPES[Kind.GROUP])
    rows["rank"], rows["seq"] = ranks[..., None], np.arange(2, 2 + len(members))
    rows["time_ns"] = started["time_ns"][..., None]
    rows["size"], rows["index"] = plan.ranks, ranks[..., None]
    rows["text"] = describe([*range(plan.ranks)]).encode()[:48]
    rows["group"] = np.stack(members, axis=-1)[:, None, :]
    is_local = rows["group"] != groups.world
    per_node = plan.ranks_per_node
    rows["size"][is_local] = per_node
    rows["index"][is_local] %= per_node
    texts = [
        describe([*range(node * per_node, (node + 1) * per_node)]).encode() for node in part.nodes
    ]
    local = np.array(texts, dtype="S48")[:, None, None]
    rows["text"] = np.where(is_local, local, rows["text"])
    return {Kind.LIFECYCLE: started, Kind.GROUP: rows.reshape(len(part.nodes), -1)}


def lifecycle_table(event: LifecycleEvent, part: Part, plan: Plan, monotonic_ns: Integers) -> Table:
    """Return one LIFECYCLE row per rank, at `monotonic_ns` (nodes,) on its node."""
    ranks = np.arange(plan.ranks)[part.ranks(plan)].reshape(len(part.nodes), -1)
    rows = np.zeros(ranks.shape, dtype=DTYPES[Kind.LIFECYCLE])
    rows["rank"], rows["event"], rows["time_ns"] = ranks, event, monotonic_ns[:, None]
    return rows
