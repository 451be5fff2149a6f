"""Events of a stream, search, and figures of the whole fleet."""

from __future__ import annotations

from typing_extensions import TypedDict

from .common import JobState
from .job import Amount


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
    """The moment that the event describes, Unix seconds."""
    attempt: int | None
    step: int | None
    state: JobState
    open_incidents: int | None
    """Null while the job is not evaluated."""
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


class FleetDevices(TypedDict):
    """Devices of jobs, one a rank."""

    busy: int
    """Of jobs that make progress."""
    known: int
    """Of jobs that have not ended; a job without evaluation counts none."""


class FleetAnswer(TypedDict):
    """Figures of all jobs; null values are unknown."""

    as_of: float
    """Unix seconds."""
    jobs: dict[str, int]
    """Number of jobs by state."""
    devices: FleetDevices
    goodput_today: float | None
    """Productive share of the device time since midnight UTC."""
    cost_today: Amount | None
    """Price of that device time; null if any of it has no rate."""
    pages_this_week: int
    """Incidents within seven days that raised an alert."""
    open_incidents: int
    """Of jobs whose incidents are known."""
