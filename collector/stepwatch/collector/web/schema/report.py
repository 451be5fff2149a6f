"""The report on device time."""

from __future__ import annotations

from typing_extensions import TypedDict

from .job import Amount
from .nodes import HealthWord

_Start = TypedDict("_Start", {"from": int})


class Summed(TypedDict):
    """Device time by cause; sums over jobs or days."""

    seconds: dict[str, float]
    """Device-seconds by cause."""
    allocated_seconds: float
    """Device-seconds."""
    productive_ratio: float | None
    """Null if nothing was allocated."""
    tokens: int | None
    """Null if steps do not count tokens."""
    steps: int
    cost: Amount | None
    """Price of the allocated device time; null without a rate for all of it."""


class ReportJob(Summed):
    """A job in the report."""

    job: str
    job_class: str
    owner: dict[str, str]
    """Project, team and cost centre, as far as the job names them."""
    allocated_by_day: dict[str, float]
    """Allocated device-seconds by the day's start, Unix seconds."""


class ReportClass(Summed):
    """A job class in the report."""

    job_class: str
    jobs: int
    """Number of jobs."""


class ReportDay(Summed):
    """A UTC day in the report, by its start in Unix seconds."""

    day: int


class TrendPart(_Start):
    """A part of the period, by its start in Unix seconds."""

    good_ratio: float | None
    """Share of good device time; null if none was counted."""


class ReportSlo(TypedDict):
    """An SLO over the period, for a class or in total."""

    slo: str
    sli: str
    job_class: str | None
    """Null for all classes."""
    jobs: int
    """Number of jobs."""
    target: float
    """Required share of good device time."""
    good_ratio: float | None
    """Share of good device time; null if none was counted."""
    lost_device_seconds: float
    """Bad device time."""
    allowed_device_seconds: float
    """The bad device time that the objective allows."""
    trend: list[TrendPart]


class ReportIncident(TypedDict):
    """An incident that cost device time."""

    id: str
    job: str
    kind: str
    cause: str
    rank: int
    """The rank, -1 without one."""
    node: str
    state: str
    opened_at: float
    """Unix seconds."""
    resolved_at: float | None
    """Unix seconds; null while it is open."""
    device_seconds_lost: float | None
    """Null if unknown."""
    summary: str
    runbook: str


class NodeHistory(TypedDict):
    """A node's faults; null for an unknown node."""

    faults_30d: int | None
    """Faults within 30 days."""
    health: HealthWord | None
    repeat_offender: bool | None
    """True after repeated faults."""


class ReportNode(NodeHistory):
    """A node that incidents name, or with repeated faults."""

    node: str
    incidents: int
    """Number of incidents in the period."""
    device_seconds_lost: float | None
    """Lost in these incidents; null if unknown."""


class ReportAnswer(_Start):
    """Device time by cause over whole UTC days, and the costliest incidents."""

    until: int
    """End of the period, Unix seconds."""
    causes: list[str]
    """The causes in the order of display."""
    total: Summed
    jobs: list[ReportJob]
    classes: list[ReportClass]
    days: list[ReportDay]
    slos: list[ReportSlo]
    incidents: list[ReportIncident]
    """The costliest incidents."""
    incident_count: int
    """Number of all incidents."""
    nodes: list[ReportNode]
