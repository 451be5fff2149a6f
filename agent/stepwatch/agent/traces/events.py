"""Spans that are always traced: start-up and recovery, preemption, failure, checkpoints.

They belong to their step's trace. A beginning is remembered by rank until its end; a restarted
agent leaves out parts whose beginning it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from stepwatch.signals import traces
from stepwatch.signals.clock import MAX_DURATION_NS
from stepwatch.signals.records import ENDS, CheckpointEvent, LifecycleEvent
from stepwatch.signals.wire import Rows

from .spans import Source, Span, Value, as_int64

STARTUP, RECOVERY = "startup", "recovery"
CHECKPOINT = "checkpoint"
MOST_HELD = 256
"""Maximum number of beginnings per attempt; the oldest is forgotten first."""
_TOLD_AS_IS = {LifecycleEvent.PREEMPTION: "preemption", LifecycleEvent.FAILURE: "failure"}
_CHECKPOINT_ENDS = {
    CheckpointEvent.VERIFIED: "checkpoint.verified",
    CheckpointEvent.FAILED: "checkpoint.failed",
    CheckpointEvent.REJECTED: "checkpoint.rejected",
}

K = TypeVar("K")
V = TypeVar("V")


class Lifecycles:
    """From process start to the first step: `startup`, or `recovery` after a resume."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[int, list[np.void]]] = {}

    def spans(self, source: Source, rows: Rows) -> Iterator[Span]:
        """Yield spans from LIFECYCLE records."""
        for row in rows:
            rank, event, moment = int(row["rank"]), int(row["event"]), int(row["time_ns"])
            if event == LifecycleEvent.START:
                _remember(self._begun, rank, (moment, []))
            elif event == LifecycleEvent.RESUME and rank in self._begun:
                self._begun[rank][1].append(row)
            elif event == LifecycleEvent.RESUME:
                yield _resume(source, row, int(row["step"]), 0)
            else:
                yield from self._begin_ends(source, row)
            if event in _TOLD_AS_IS:
                text = _text(row)
                error = text or "failed" if event == LifecycleEvent.FAILURE else ""
                yield _moment(source, row, _TOLD_AS_IS[LifecycleEvent(event)], error=error)

    def _begin_ends(self, source: Source, row: np.void) -> Iterator[Span]:
        rank, step, end = int(row["rank"]), int(row["step"]), int(row["time_ns"])
        ends = (LifecycleEvent.FIRST_STEP, *ENDS)
        if int(row["event"]) not in ends or rank not in self._begun:
            return
        began, resumes = self._begun.pop(rank)
        error = "" if row["event"] == LifecycleEvent.FIRST_STEP else "ended before its first step"
        name = RECOVERY if resumes else STARTUP
        root = source.span(step, rank, name, (began, end), error=error)
        yield root
        for resume in resumes:
            yield _resume(source, resume, step, root.span_id)


class Save(NamedTuple):
    """A checkpoint being saved; `earlier` counts previous ones at the same step.

    `traced` means that its root is or will be sent, because it began under this agent.
    """

    earlier: int
    began_ns: int
    traced: bool = True


class Checkpoints:
    """A root span for the loop's stall, with children for durability and outcome."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], Save] = {}

    def spans(self, source: Source, rows: Rows) -> Iterator[Span]:
        """Yield spans from CHECKPOINT records."""
        for row in rows:
            key = int(row["rank"]), int(row["step"])
            begun, moment = self._begun.get(key), int(row["time_ns"])
            if int(row["event"]) == CheckpointEvent.BEGIN and not row["stall_ns"]:
                earlier = begun.earlier + 1 if begun else 0
                _remember(self._begun, key, Save(earlier, moment))
            else:
                durable = _possible(row, "durable_ns") or 0
                yield from _save_spans(
                    source, row, begun or Save(0, moment - durable, traced=False)
                )


def _save_spans(source: Source, row: np.void, save: Save) -> Iterator[Span]:
    step, rank = int(row["step"]), int(row["rank"])
    event, end, stall = int(row["event"]), int(row["time_ns"]), _possible(row, "stall_ns")
    attributes: dict[str, Value] = {}
    if stall != 0:
        name, moments = CHECKPOINT, (save.began_ns if stall is None else end - stall, end)
    elif event == CheckpointEvent.WRITTEN:
        durable = _possible(row, "durable_ns")
        until = end if durable is None else save.began_ns + durable
        name, moments = "checkpoint.durable", (save.began_ns, until)
        attributes[traces.CHECKPOINT_BYTES] = as_int64(row["bytes"])
    elif event in _CHECKPOINT_ENDS:
        name, moments = _CHECKPOINT_ENDS[CheckpointEvent(event)], (end, end)
    else:
        return
    failed = event in (CheckpointEvent.FAILED, CheckpointEvent.REJECTED)
    below = name != CHECKPOINT and save.traced
    yield source.span(
        step,
        rank,
        name,
        moments,
        attributes,
        parent_id=source.span_id(step, rank, CHECKPOINT, save.earlier) if below else 0,
        index=save.earlier,
        error=_text(row) or "failed" if failed else "",
    )


def _possible(row: np.void, name: str) -> int | None:
    """Return a duration in nanoseconds; None if it exceeds the machine's uptime."""
    duration_ns = int(row[name])
    return duration_ns if duration_ns <= min(MAX_DURATION_NS, int(row["time_ns"])) else None


def _resume(source: Source, row: np.void, step: int, parent_id: int) -> Span:
    moment = int(row["time_ns"])
    attributes: dict[str, Value] = {
        traces.RESUMED_FROM: int(row["value"]),
        traces.DETAIL: _text(row),
    }
    rank = int(row["rank"])
    return source.span(step, rank, "resume", (moment, moment), attributes, parent_id=parent_id)


def _moment(source: Source, row: np.void, name: str, *, error: str = "") -> Span:
    moment = int(row["time_ns"])
    detail: dict[str, Value] = {traces.DETAIL: _text(row)}
    step, rank = int(row["step"]), int(row["rank"])
    return source.span(step, rank, name, (moment, moment), detail, error=error)


def _text(row: np.void) -> str:
    return bytes(row["text"]).decode("utf-8", "replace")


def _remember(beginnings: dict[K, V], key: K, value: V) -> V:
    beginnings.pop(key, None)
    beginnings[key] = value
    if len(beginnings) > MOST_HELD:
        del beginnings[next(iter(beginnings))]
    return value
