"""Ranks that have entered the stalled step, by the order of its collectives.

A rank that waits in the second collective of a group has left the first one, so all members had
entered that: none of them is between two steps, where a job evaluates or saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Phase

from .situation import RankSituation

_WITHIN_A_STEP = (Phase.FORWARD, Phase.BACKWARD)
"""Outside these phases a loop may evaluate on one rank before all meet: to log a loss, to save."""


def entered_step(
    ranks: Iterable[RankSituation], calls: Rows, groups: Mapping[int, str], least_steps: int
) -> frozenset[int]:
    """Return members of groups in which one of `ranks` is in a later collective of its step.

    `calls` are rows from earlier steps, for each rank and step in the order in which operations
    first occurred. `groups` maps the low 16 bits of a group's number to its members as text. The
    order must be the same in all these steps, and there must be at least `least_steps` of them.

    Worked example: each step calls all_gather, then reduce_scatter in group 0-3. A rank in
    reduce_scatter shows that ranks 0 to 3 have entered the step; a rank in all_gather does not.
    """
    places = {
        (item.group, item.op): item
        for item in ranks
        if item.in_collective and item.phase in _WITHIN_A_STEP
    }
    orders = _orders(calls, [item.rank for item in places.values()])
    members: set[int] = set()
    for (group, op), item in places.items():
        steps = orders.get((item.rank, group), [])
        later = all(op in ops[1:] for ops in steps)
        if len(steps) >= least_steps and later:
            members.update(members_of(groups.get(group, "")) or ())
    return frozenset(members)


def _orders(calls: Rows, ranks: Sequence[int]) -> dict[tuple[int, int], list[list[int]]]:
    """Return the operations of each step in order, by rank and group."""
    rows = calls[np.isin(calls["rank"], ranks)]
    group = rows["group"] & np.uint32(0xFFFF)
    order = np.lexsort((rows["step"], group, rows["rank"]))
    keys = zip(rows["rank"][order].tolist(), group[order].tolist(), strict=True)
    steps, ops = rows["step"][order].tolist(), rows["op"][order].tolist()
    orders: dict[tuple[int, int], list[list[int]]] = {}
    previous = None
    for key, step, op in zip(keys, steps, ops, strict=True):
        if (key, step) != previous:
            orders.setdefault(key, []).append([])
            previous = key, step
        orders[key][-1].append(op)
    return orders
