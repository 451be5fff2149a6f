"""Turns a segment's tables into exported spans; the agent calls it once per flush."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

from stepwatch.agent.keys import AttemptKey
from stepwatch.signals import traces
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows

from . import DEFAULT_EVERY
from .events import Checkpoints, Lifecycles
from .sampling import Sampler
from .spans import Source, Span
from .steps import step_spans
from .traced import Traced

MOST_ATTEMPTS = 64
"""Maximum number of attempts per node; the one without records for longest is forgotten."""


class TraceOptions(NamedTuple):
    """The trace endpoint, and the sampling interval for ordinary steps.

    Without `endpoint` the OTEL_EXPORTER_OTLP_* variables name it.
    """

    endpoint: str | None
    every: int = DEFAULT_EVERY


class Sink(Protocol):
    """Accepts spans without blocking the caller."""

    exported: int
    dropped: int
    rejected: int

    def put(self, resource: Mapping[str, str | int], spans: list[Span]) -> None:
        """Queue spans that share a resource."""
        ...

    def close(self) -> None:
        """Release the receiver."""
        ...


class AttemptTraces:
    """One attempt's state between flushes."""

    def __init__(self, every: int) -> None:
        self.sampler = Sampler(every)
        self._lifecycles = Lifecycles()
        self._checkpoints = Checkpoints()

    def spans(self, source: Source, tables: Mapping[Kind, Rows]) -> Iterator[Span]:
        """Yield spans that these tables complete."""
        if Kind.LIFECYCLE in tables:
            yield from self._lifecycles.spans(source, tables[Kind.LIFECYCLE])
        if Kind.CHECKPOINT in tables:
            yield from self._checkpoints.spans(source, tables[Kind.CHECKPOINT])
        for chosen in self.sampler.choose(tables):
            yield from step_spans(source, *chosen)


class Tracer:
    """Create spans for every attempt on this node, and pass them to `sink`.

    `every` samples the steps whose number it divides.
    """

    def __init__(self, node: str, sink: Sink, every: int = DEFAULT_EVERY) -> None:
        self.sink = sink
        self._node = node
        self._every = every
        self._attempts: dict[AttemptKey, AttemptTraces] = {}
        self._traced: dict[str, Traced] = {}

    @property
    def traced(self) -> list[tuple[str, Traced]]:
        """Traced counts by job; the job without a trace for longest comes first."""
        return list(self._traced.items())

    def trace(self, key: AttemptKey, clock: ClockPair, tables: Mapping[Kind, Rows]) -> None:
        """Create spans from one segment's tables, dated by its clock pair."""
        attempt = self._attempts.pop(key, None) or AttemptTraces(self._every)
        self._attempts[key] = attempt
        if len(self._attempts) > MOST_ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]
        spans = list(attempt.spans(Source(key.job, key.attempt, clock), tables))
        if spans:
            self.sink.put(self._resource(key), spans)
            self._count(key.job, spans)

    def close(self) -> None:
        """Send queued spans and release the receiver."""
        self.sink.close()

    def _count(self, job: str, spans: list[Span]) -> None:
        # Replaced each time: an exporter in another thread reads while this one counts.
        counts = dict(self._traced)
        now = counts.pop(job, Traced()).and_spans(spans)
        first = len(counts) - (MOST_ATTEMPTS - 1)
        self._traced = {**dict(list(counts.items())[max(first, 0) :]), job: now}

    def _resource(self, key: AttemptKey) -> dict[str, str | int]:
        return {
            "service.name": key.job,
            "service.namespace": traces.SERVICE_NAMESPACE,
            traces.JOB: key.job,
            traces.ATTEMPT: key.attempt,
            traces.NODE: self._node,
        }
