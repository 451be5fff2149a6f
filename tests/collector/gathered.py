"""COLLECTIVE and GROUP rows made by hand: who arrives when is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stepwatch.cli.simulate import rows as fleet
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Op, make_rows
from stepwatch.signals.wire import Rows, Segment

from .made import run_segments

SLOW, SINCE, STEPS = 2, 20, 40
PAIRS = {10: (0, 1), 11: (2, 3)}
"""Rank 2 of four is slow from step 20 on; members of each group."""


def group_rows(number: int, ranks: Sequence[int], name: str = "") -> Rows:
    """What each member writes when it first sees the group."""
    text = ",".join(map(str, ranks)).encode()[:48]
    group = fleet.Group(number, np.array(ranks), text)
    return group.rows(group.members, name=name.encode())


def call_rows(
    steps: Iterable[int],
    exposed: dict[int, float],
    group: int = 7,
    op: Op = Op.ALL_GATHER,
    count: int = 4,
    size_bytes: int = 1000,
) -> Rows:
    """Each step, every rank of `exposed` is blocked for so many seconds."""
    numbers, exposed_ns = [*steps], np.round(np.array([*exposed.values()]) * NANOSECONDS)
    shape, step = (len(numbers), len(exposed)), np.array(numbers, np.int64)[:, None]
    called = fleet.step_rows(*shape, rank=[*exposed], step=step, spent_ns={})
    calls = fleet.Calls(0, op, group, count, size_bytes, 0, exposed_ns, 0)
    return fleet.call_rows(called, [calls]).reshape(-1)


def device_call_rows(host: Rows, exposed_seconds: Any) -> Rows:
    """DEVICE_COLLECTIVE rows of the same calls, all of them timed."""
    names = ("step", "rank", "group", "op", "count")
    columns = {name: host[name] for name in names} | {"exposed_seconds": exposed_seconds}
    return make_rows(Kind.DEVICE_COLLECTIVE, len(host), timed=host["count"], **columns)


def records_of(rows: Rows, *groups: Rows, world: int = 1 << 17) -> CollectiveRecords:
    """What the collector would hold after these rows."""
    calls = CollectiveRecords()
    for group in groups:
        calls.add_groups(group)
    calls.add(rows, world)
    return calls


def gathering_run() -> list[Segment]:
    """Two stages of two ranks; rank 2 is slow from a step on, and rank 3 waits for it."""
    segments = run_segments(STEPS, excess={(SLOW, "forward"): 0.2}, slow_from=SINCE)
    introduced = np.concatenate([group_rows(group, ranks) for group, ranks in PAIRS.items()])
    return [
        item._replace(
            tables={
                **item.tables,
                Kind.COLLECTIVE: _blocked(item.tables[Kind.STEP]),
                **({Kind.GROUP: introduced} if index == 0 else {}),
            }
        )
        for index, item in enumerate(segments)
    ]


def _blocked(steps: Rows) -> Rows:
    """One all-gather per rank and step that blocks as long as the step says."""
    group_of = {rank: group for group, ranks in PAIRS.items() for rank in ranks}
    return np.concatenate(
        [
            call_rows(
                [int(row["step"])],
                {int(row["rank"]): int(row["collective_ns"]) / NANOSECONDS},
                group_of[int(row["rank"])],
            )
            for row in steps
        ]
    )
