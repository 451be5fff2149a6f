"""Events of a stream, search, and figures of the whole fleet."""

from __future__ import annotations

from typing_extensions import TypedDict

from .common import JobState


class OpenEvent(TypedDict):
    """The first event of a stream."""

    beat_seconds: float
    """Longest time without data: a stream that is silent for longer is lost."""


class LiveEvent(TypedDict):
    """What moved in a job that a reader follows."""

    job: str
    version: int | None
    """Rises with each change; null if another collector evaluates the job."""
    as_of: float | None
    attempt: int | None
    step: int | None
    state: JobState
    open_incidents: int | None
    changed: list[str]
    """The answers to ask for again: `summary`, `series`, `matrix`, `marks`, `collectives`."""
    points: dict[str, list[tuple[int, float, float | None]]]
    """New points by metric: step, Unix seconds, value."""


class GoneEvent(TypedDict):
    """A job that the collector forgot."""

    job: str


class ResyncEvent(TypedDict):
    """Topics whose events were lost: the reader asks for everything again."""

    topics: list[str]


class FoundJob(TypedDict):
    """A job that a search finds."""

    name: str
    words: str
    state: str


class FoundNode(TypedDict):
    """A node that a search finds."""

    name: str
    words: str
    state: str


class FoundIncident(TypedDict):
    """An incident that a search finds."""

    id: str
    words: str
    state: str


class SearchAnswer(TypedDict):
    """Jobs, nodes and incidents whose names or words match."""

    jobs: list[FoundJob]
    nodes: list[FoundNode]
    incidents: list[FoundIncident]
