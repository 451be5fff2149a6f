"""Incidents, their response state, silences."""

from __future__ import annotations

from typing import Annotated, NotRequired

from typing_extensions import TypedDict

from stepwatch.collector.incidents.states import ALERT, INFO, STATES
from stepwatch.collector.store.response import EVENTS

from .common import OneOf

IncidentState = Annotated[str, OneOf(STATES)]
"""An incident's state; detectors set it."""
SeverityWord = Annotated[str, OneOf((INFO, ALERT))]
"""Whether an incident raises an alert."""
NoteEvent = Annotated[str, OneOf(EVENTS)]
"""The kind of a note."""


class Evidence(TypedDict):
    """A fact behind an incident."""

    name: str
    value: float | None
    """The value in `unit`; null for a fact in words."""
    unit: str
    """Empty for a fact in words."""
    against: str
    """The reference value in words."""
    text: str
    """A fact in words; else empty."""
    reference: NotRequired[float | None]
    """The reference value in `unit`; null, or missing in older incidents, if it is no number."""


class TimelineEntry(TypedDict):
    """A moment in an incident's history, Unix seconds."""

    at: float | None
    event: str
    text: str


class Symptom(TypedDict):
    """A finding that the incident's cause explains."""

    key: str
    kind: str
    rank: int
    """The rank, -1 without one."""
    phase: str
    """Empty without one."""
    cause: str
    summary: str
    since_step: int
    """First affected step, -1 if unknown."""
    first_seen_at: float
    """Unix seconds."""
    seen_at: float
    """Newest finding, Unix seconds."""


class Noted(TypedDict):
    """Who changed the response state, and when (Unix seconds)."""

    by: str
    at: float


class Note(TypedDict):
    """A note on an incident."""

    event: NoteEvent
    by: str
    at: float
    """Unix seconds."""
    text: str
    """The comment, or the new owner."""


class Silence(TypedDict):
    """A silence: it holds pages about matching incidents. An empty name matches any."""

    id: str
    job: str
    node: str
    kind: str
    why: str
    """The reason that its author gave."""
    by: str
    since: float
    """Unix seconds."""
    until: float
    """Unix seconds."""
    expired_by: str
    """Who ended it early; else empty."""
    alertmanager: str
    """Alertmanager's id; empty if the silence was not created there."""


class Response(TypedDict):
    """What people did about an incident."""

    acknowledged: Noted | None
    mitigated: Noted | None
    owner: str
    """Empty without one."""
    notes: list[Note]
    silenced: Silence | None
    """The silence that holds the incident's pages."""


class Incident(TypedDict):
    """A cause and its history. Times are Unix seconds."""

    id: str
    key: str
    """Equal for findings that are one incident."""
    kind: str
    job: str
    attempt: int
    state: IncidentState
    rank: int
    """The rank, -1 without one."""
    node: str
    """The node, `unknown` without one."""
    phase: str
    """The affected phase; empty without one."""
    cause: str
    summary: str
    """The incident in one sentence, as it opened or as its cause became known."""
    since_step: int
    """First affected step, -1 if unknown."""
    began_at: float | None
    """Beginning of the anomaly; null if unknown."""
    opened_at: float
    """When it was first found."""
    last_seen_at: float
    """When it was last found."""
    resolved_at: float | None
    """Null while it is open."""
    detected_after_seconds: float | None
    """Time from the beginning of the anomaly to the finding."""
    slowdown_ratio: float | None
    """The rank's time over its peers': 2 is twice as slow; null without peers."""
    throughput_lost_ratio: float | None
    """Share of the job's throughput that is lost; null if unknown."""
    device_seconds_lost: float | None
    """Device-seconds lost so far; null if unknown."""
    alert: str
    """Name of the alert that it raises."""
    runbook: str
    """Name of its runbook."""
    evidence: list[Evidence]
    timeline: list[TimelineEntry]
    symptoms: list[Symptom]
    """Findings that this incident explains."""
    subject: str
    """Tells incidents of one kind and rank apart; mostly empty."""
    merged_into: str
    """The incident into which this one was merged; else empty."""
    confidence: str
    """The finding's certainty; empty if unknown."""
    summary_now: str
    """The same with the newest figures; empty if nothing changed."""
    slowdown_ratio_now: float | None
    """`slowdown_ratio` by the newest finding."""
    throughput_lost_ratio_now: float | None
    """`throughput_lost_ratio` by the newest finding."""
    severity: SeverityWord
    cost: float | None
    """Price of the lost device time in `currency`; null if any of it has no rate."""
    currency: str
    """Empty without a rate."""
    cause_seconds: dict[str, float | None]
    """How long each cause in a phase was found lately."""


class JobIncident(Incident):
    """An incident in a job's summary; the response state is left out if the job has none."""

    response: NotRequired[Response]


class IncidentAnswer(Incident):
    """An incident with its response state."""

    response: Response


class AttemptOfIncident(TypedDict):
    """An incident as an agent's token may see it."""

    attempt: int


class IncidentsAnswer(TypedDict):
    """The newest incidents."""

    incidents: list[IncidentAnswer] | list[AttemptOfIncident]
    """With an agent's token, only their attempts."""


class SilencesAnswer(TypedDict):
    """Silences, newest first."""

    silences: list[Silence]
