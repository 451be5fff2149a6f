"""Records of one attempt with every field known, and the spans that they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.traces.spans import Span, Value
from stepwatch.agent.traces.tracer import Tracer
from stepwatch.signals import traces
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import PHASE_NAMES, Kind, make_rows
from stepwatch.signals.wire import Rows

JOB, ATTEMPT, NODE = "job", 2, "node-1"
KEY = AttemptKey(JOB, ATTEMPT)
MONOTONIC, WALL = 10 * NANOSECONDS, 1_800_000_000 * NANOSECONDS
CLOCK = ClockPair(MONOTONIC, WALL)
MS = 1_000_000


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.exported = self.dropped = self.rejected = 0
        self.spans: list[Span] = []
        self.resources: list[Mapping[str, str | int]] = []
        self.closed = False

    def put(self, resource: Mapping[str, str | int], spans: list[Span]) -> None:
        self.resources.append(resource)
        self.spans.extend(spans)

    def close(self) -> None:
        self.closed = True


def traced(*flushes: Mapping[Kind, Rows], every: int = 1_000_000) -> list[Span]:
    """Spans that a tracer makes of these flushes."""
    sink = Kept()
    tracer = Tracer(NODE, sink, every)
    for tables in flushes:
        tracer.trace(KEY, CLOCK, tables)
    return sink.spans


def rows(kind: Kind, *records: Mapping[str, Any]) -> Rows:
    """Records of `kind`; fields that are not given are unknown, and the rank is 0."""
    table = make_rows(kind, len(records), rank=0)
    for row, record in zip(table, records, strict=True):
        for name, value in record.items():
            row[name] = value
    return table


def step(number: int, rank: int = 0, *, ms: int = 10, flags: int = 0, **fields: Any) -> Any:
    """A STEP record that ends at `number` seconds and spent `ms` in forward, all of it."""
    spent = {f"{name}_ns": 0 for name in PHASE_NAMES} | {"forward_ns": ms * MS}
    return {
        "rank": rank, "step": number, "time_ns": number * NANOSECONDS, "flags": flags,
        **spent, "duration_ns": ms * MS, **fields,
    }  # fmt: skip


def steps(*records: Mapping[str, Any]) -> dict[Kind, Rows]:
    """A flush of STEP records."""
    return {Kind.STEP: rows(Kind.STEP, *records)}


def usual(first: int, last: int, rank: int = 0) -> dict[Kind, Rows]:
    """A flush of steps that nobody would trace."""
    return steps(*(step(number, rank) for number in range(first, last + 1)))


def named(spans: list[Span], name: str) -> list[Span]:
    """Spans of one name."""
    return [span for span in spans if span.name == name]


def reasons_of(spans: list[Span]) -> list[tuple[Value, Value, Value]]:
    """(rank, step, reasons) of each traced step."""
    names = (traces.RANK, traces.STEP, traces.REASONS)
    reasons_by_step = [[span.attributes[name] for name in names] for span in named(spans, "step")]
    return [(rank, number, reasons) for rank, number, reasons in reasons_by_step]
