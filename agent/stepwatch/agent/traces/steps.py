"""The span tree for one rank's step: the step, its phases and its collectives.

A step's start and end are measured. Its phases are self time sums, so their spans are laid end to
end and marked as such; they cover the step because self times add up to it. Collectives are sums
by operation and group. Their spans are below the blocked time, and an event marks the first
call's arrival. Overlapped ones may outlast their parent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from stepwatch.signals import traces
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import OP_NAMES, StepFlag

from .spans import Moment, Source, Span, Value, as_int64

ROOT = "step"
COLLECTIVES = "collectives"
PARTS = (
    ("data", "data_ns"),
    ("forward", "forward_ns"),
    ("backward", "backward_ns"),
    ("optimizer", "optimizer_ns"),
    ("checkpoint", "checkpoint_ns"),
    ("eval", "eval_ns"),
    ("other", "other_ns"),
    (COLLECTIVES, "collective_ns"),
    ("pipeline_wait", "pipeline_wait_ns"),
)
"""Spans below a step, in order, each with the STEP field for its length."""
_SUM: dict[str, Value] = {traces.AGGREGATED: True, traces.START_MEASURED: False}


def step_spans(
    source: Source, step: np.void, reasons: tuple[str, ...], collectives: Iterable[np.void]
) -> Iterator[Span]:
    """Yield spans for a STEP record and its rank's COLLECTIVE records, root first."""
    number, rank, end = int(step["step"]), int(step["rank"]), int(step["time_ns"])
    start_ns = end - int(step["duration_ns"])
    attributes = {traces.REASONS: reasons, traces.START_MEASURED: True, **_numbers(step)}
    root = source.span(number, rank, ROOT, (start_ns, end), attributes, error=_error(step, reasons))
    yield root
    rows = list(collectives)
    for name, field in PARTS:
        spent = int(step[field])
        if not spent and not (name == COLLECTIVES and rows):
            continue
        part = source.span(
            number, rank, name, (start_ns, start_ns + spent), _SUM, parent_id=root.span_id
        )
        yield part
        if name == COLLECTIVES:
            yield from _collective_spans(source, part.span_id, start_ns, rows)
        start_ns += spent


def _collective_spans(
    source: Source, parent_id: int, start_ns: int, rows: Iterable[np.void]
) -> Iterator[Span]:
    for row in rows:
        op, group, spent = int(row["op"]), int(row["group"]), int(row["exposed_ns"])
        attributes: dict[str, Value] = {
            **_SUM,
            traces.GROUP: group,
            traces.COUNT: int(row["count"]),
            traces.COLLECTIVE_BYTES: as_int64(row["bytes"]),
            traces.LONGEST_SECONDS: int(row["longest_ns"]) / NANOSECONDS,
        }
        span = source.span(
            int(row["step"]),
            int(row["rank"]),
            OP_NAMES[op] if op < len(OP_NAMES) else OP_NAMES[0],
            (start_ns, start_ns + spent),
            attributes,
            parent_id=parent_id,
            index=group,
        )
        first = Moment("first arrival", source.wall_ns(int(row["first_arrival_ns"])))
        yield span._replace(moments=(first,))
        start_ns += spent


def _numbers(step: np.void) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        traces.TOKENS: int(step["tokens"]),
        traces.MICROBATCHES: int(step["microbatches"]),
    }
    for name, field in ((traces.LOSS, "loss"), (traces.GRAD_NORM, "grad_norm")):
        if math.isfinite(step[field]):  # NaN: never recorded
            attributes[name] = float(step[field])
    return attributes


def _error(step: np.void, reasons: tuple[str, ...]) -> str:
    if int(step["flags"]) & StepFlag.UNFINISHED:
        return "left by an exception"
    return "values that are not finite" if "non-finite" in reasons else ""
