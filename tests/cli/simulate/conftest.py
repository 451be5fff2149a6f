"""What a simulated fleet sends, decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwatch.cli.simulate.faults import parse
from stepwatch.cli.simulate.fleet import Fleet
from stepwatch.cli.simulate.plan import Plan
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment

EPOCH_NS = 1_790_000_000 * 1_000_000_000


def sent(plan: Plan, nodes_at_once: int = 64) -> Iterator[Segment]:
    """The segments of a whole run, in the order in which they are sent."""
    for flush in Fleet(plan, EPOCH_NS, spool=1, nodes_at_once=nodes_at_once).flushes():
        yield from map(wire.decode, flush.segments)


def rows_of(segments: list[Segment], kind: Kind) -> Rows:
    """All rows of one kind."""
    tables = [segment.tables[kind] for segment in segments if kind in segment.tables]
    return np.concatenate(tables)


def plan_with(*faults: str, **values: Any) -> Plan:
    """A plan of 16 ranks on 4 nodes, unless `values` say otherwise."""
    parsed_faults = tuple(fault for fault in map(parse, faults) if fault is not None)
    sizes = {"ranks": 16, "nodes": 4, "steps": 12, **values}
    return Plan(**sizes, faults=parsed_faults)
