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
    """Project, team and cost centre, those that are known."""
    allocated_by_day: dict[str, float]
    """Allocated device-seconds by the day's start, Unix seconds."""


class ReportClass(Summed):
    """A job class in the report."""

    job_class: str
    jobs: int


class ReportDay(Summed):
    """A UTC day in the report, by its start in Unix seconds."""

    day: int


class TrendPart(_Start):
    """A part of the period, by its start in Unix seconds."""

    good_ratio: float | None


class ReportSlo(TypedDict):
    """An SLO over the period, for a class or in total."""

    slo: str
    sli: str
    job_class: str | None
    """Null for all classes."""
    jobs: int
    target: float
    good_ratio: float | None
    lost_device_seconds: float
    allowed_device_seconds: float
    trend: list[TrendPart]


class ReportIncident(TypedDict):
    """An incident that cost device time."""

    id: str
    job: str
    kind: str
    cause: str
    rank: int
    node: str
    state: str
    opened_at: float
    resolved_at: float | None
    device_seconds_lost: float | None
    summary: str
    runbook: str


class NodeHistory(TypedDict):
    """A node's faults; null for an unknown node."""

    faults_30d: int | None
    health: HealthWord | None
    repeat_offender: bool | None


class ReportNode(NodeHistory):
    """A node that incidents name, or with repeated faults."""

    node: str
    incidents: int
    device_seconds_lost: float | None


class ReportAnswer(_Start):
    """Device time by cause over whole UTC days, and the costliest incidents."""

    until: int
    causes: list[str]
    """The causes in the order of display."""
    total: Summed
    jobs: list[ReportJob]
    classes: list[ReportClass]
    days: list[ReportDay]
    slos: list[ReportSlo]
    incidents: list[ReportIncident]
    incident_count: int
    nodes: list[ReportNode]
