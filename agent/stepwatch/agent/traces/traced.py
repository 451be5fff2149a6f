"""What was traced of a job, in numbers, with one new trace to look at: an exemplar of metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepwatch.signals import traces
from stepwatch.signals.clock import NANOSECONDS

from .sampling import SAMPLED
from .spans import Span
from .steps import ROOT

PREFERRED_SECONDS = 60.0
"""So long a step that was traced because it is unusual is shown, and no ordinary one after it."""


class Example(NamedTuple):
    """A traced step of one rank: its trace in hex, its length, when it ended in Unix seconds."""

    trace_id: str
    rank: int
    seconds: float
    at_s: float
    unusual: bool

    def yields_to(self, candidate: Example) -> bool:
        """Whether `candidate` is shown from now on."""
        later = candidate.at_s - self.at_s
        return later > (0.0 if candidate.unusual or not self.unusual else PREFERRED_SECONDS)


class Traced(NamedTuple):
    """Steps of ranks of which a trace was made, their lengths together, and one of the newest."""

    steps: int = 0
    seconds: float = 0.0
    example: Example | None = None

    def and_spans(self, spans: Iterable[Span]) -> Traced:
        """The same with the steps among further spans."""
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
