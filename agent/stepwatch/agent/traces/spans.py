"""A span before export: plain numbers, without OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stepwatch.signals import traces
from stepwatch.signals.clock import ClockPair

Value = str | int | float | bool | tuple[str, ...]
_LARGEST = (1 << 63) - 1
"""OTLP attributes are signed."""


def as_int64(number: int) -> int:
    """Limit a record's unsigned number to a signed attribute; damage may make it larger."""
    return min(int(number), _LARGEST)


class Moment(NamedTuple):
    """An event within a span, at a wall time in nanoseconds."""

    name: str
    wall_ns: int


class Span(NamedTuple):
    """A span in OTLP's form: wall times in nanoseconds, `parent_id` 0 for a root.

    `error` is empty unless the span failed.
    """

    trace_id: int
    span_id: int
    parent_id: int
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    error: str = ""
    moments: tuple[Moment, ...] = ()


class Source(NamedTuple):
    """A span's origin: the attempt, and the segment's clock pair."""

    job: str
    attempt: int
    clock: ClockPair

    def wall_ns(self, monotonic_ns: int) -> int:
        """Return a record time as wall time, within OTLP's range."""
        return min(max(self.clock.to_wall_ns(monotonic_ns), 0), _LARGEST)

    def span_id(self, step: int, rank: int, name: str, index: int = 0) -> int:
        """Return a span's id in this attempt."""
        return traces.span_id(self.job, self.attempt, step, rank, name, index)

    def span(
        self,
        step: int,
        rank: int,
        name: str,
        moments_ns: tuple[int, int],
        attributes: Mapping[str, Value] | None = None,
        *,
        parent_id: int = 0,
        index: int = 0,
        error: str = "",
    ) -> Span:
        """Return `rank`'s span between two monotonic times."""
        start, end = map(self.wall_ns, moments_ns)
        return Span(
            traces.trace_id(self.job, self.attempt, step),
            self.span_id(step, rank, name, index),
            parent_id,
            name,
            start,
            max(start, end),
            {traces.STEP: step, traces.RANK: rank, **(attributes or {})},
            error,
        )
