"""Counts per job for traced steps, with a recent trace as a metrics exemplar."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepwatch.signals import traces
from stepwatch.signals.clock import NANOSECONDS

from .sampling import SAMPLED
from .spans import Span
from .steps import ROOT

PREFERRED_SECONDS = 60.0
"""Seconds for which an unusual step is shown before an ordinary one may replace it."""


class Example(NamedTuple):
    """One rank's traced step: trace id in hex, length, and its end in Unix seconds."""

    trace_id: str
    rank: int
    seconds: float
    at_s: float
    unusual: bool

    def yields_to(self, candidate: Example) -> bool:
        """Return whether `candidate` replaces this example."""
        later = candidate.at_s - self.at_s
        return later > (0.0 if candidate.unusual or not self.unusual else PREFERRED_SECONDS)


class Traced(NamedTuple):
    """The number of traced rank-steps, their total length, and a recent example."""

    steps: int = 0
    seconds: float = 0.0
    example: Example | None = None

    def and_spans(self, spans: Iterable[Span]) -> Traced:
        """Return the counts with the steps in further spans."""
        steps, seconds, example = self
        for span in spans:
            if span.parent_id or span.name != ROOT:
                continue
            candidate = _example(span)
            steps, seconds = steps + 1, seconds + candidate.seconds
            if example is None or example.yields_to(candidate):
                example = candidate
        return Traced(steps, seconds, example)


def _example(span: Span) -> Example:
    rank = span.attributes[traces.RANK]
    assert isinstance(rank, int)
    return Example(
        f"{span.trace_id:032x}",
        rank,
        (span.end_ns - span.start_ns) / NANOSECONDS,
        span.end_ns / NANOSECONDS,
        span.attributes[traces.REASONS] != (SAMPLED,),
    )
