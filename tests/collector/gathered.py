"""COLLECTIVE and GROUP rows made by hand: who arrives when is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from stepwatch.collector.calls import Calls
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DTYPES, Kind, Op
from stepwatch.signals.wire import Rows


def group_rows(number: int, ranks: Sequence[int]) -> Rows:
    """What each member writes when it first sees the group."""
    rows = np.zeros(len(ranks), dtype=DTYPES[Kind.GROUP])
    rows["rank"], rows["group"], rows["size"] = ranks, number, len(ranks)
    rows["index"] = np.arange(len(ranks))
    rows["text"] = ",".join(map(str, ranks)).encode()[:48]
    return rows


def call_rows(
    steps: Iterable[int],
    exposed: dict[int, float],
    group: int = 7,
    op: Op = Op.ALL_GATHER,
    count: int = 4,
    size_bytes: int = 1000,
) -> Rows:
    """Each step, every rank of `exposed` is blocked for so many seconds."""
    cells = [(step, rank) for step in steps for rank in exposed]
    rows = np.zeros(len(cells), dtype=DTYPES[Kind.COLLECTIVE])
    rows["step"], rows["rank"] = np.array(cells).reshape(-1, 2).T
    rows["group"], rows["op"], rows["count"], rows["bytes"] = group, op, count, size_bytes
    seconds = np.array([exposed[rank] for _, rank in cells])
    rows["exposed_ns"] = np.round(seconds * NANOSECONDS).astype(np.uint64)
    return rows


def kept(rows: Rows, *groups: Rows, world: int = 1 << 17) -> Calls:
    """What the collector would hold after these rows."""
    calls = Calls()
    for each in groups:
        calls.add_groups(each)
    calls.add(rows, world)
    return calls
