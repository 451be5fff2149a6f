"""Service level objectives and indicators of one job."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from .common import Dated, FigureClock, JobState, SloStateWord


class Burning(TypedDict):
    """A burn-rate alert that fires."""

    severity: str
    """`page` or `ticket`."""
    budget_share: float
    """Share of the budget that the alert's window may use."""
    seconds: float
    """Length of the alert's long window."""
    rate: float | None
    """Burn rate over the window."""
    limit: float | None
    """Burn rate from which the alert fires."""


class SloBudget(TypedDict):
    """An SLO's objective, its state and its error budget."""

    name: str
    state: SloStateWord
    target: float | None
    """Required share of good device time; null for a limit."""
    limit: str | None
    """The required limit in words; null for a share."""
    time_slices: str | None
    """The requirement on time slices in words; null without one."""
    window: str
    """The window in words."""
    ratio: float | None
    """Share of good device time in the window; for a limit the SLI's value."""
    budget_remaining: float | None
    """Remaining share of the error budget, 1 for a full one; negative once it is overspent."""
    budget: str
    """The remaining budget in words."""
    burn_rate: float | None
    """Speed of spending: 1 uses up the budget exactly at the window's end."""
    lost_device_seconds: float | None
    """Bad device time in the window."""
    allowed_device_seconds: float | None
    """The window's error budget: the bad device time that the objective allows."""
    reason: str
    """Why the state is unknown, frozen or too early; else empty."""


class SlosOfJob(TypedDict):
    """The objectives of one job."""

    job: str
    job_class: str | None
    """Null if the job names no class, or is not evaluated."""
    slos: list[SloBudget]
    """Empty for a job without an objective, or without evaluation."""


class SlosAnswer(TypedDict):
    """The objectives of all jobs; a running job's are `unknown` while its evaluation is old."""

    jobs: list[SlosOfJob]


class SloLine(SloBudget):
    """An SLO's newest status."""

    sli: str
    clock: FigureClock | None
    """Null while no step is timed."""
    revision: str
    """A digest of the objective."""
    generation: int | None
    """Number of the objective since the SLO began; null before it is stored."""
    since: float | None
    """The objective's beginning, Unix seconds; null before it is stored."""
    burning: list[Burning]
    """The burn-rate alerts that fire."""
    coverage: float | None
    """Share of the window's device time with telemetry."""


class Price(TypedDict):
    """The price of a device-second."""

    money: float
    """In `currency` a device-second."""
    currency: str


class CostlyIncident(TypedDict):
    """An incident that cost device time within the window."""

    id: str
    kind: str
    cause: str
    rank: int
    """The rank, -1 without one."""
    node: str
    """The node, `unknown` without one."""
    device_seconds_lost: float | None
    """Null if unknown."""
    cost: float | None
    """Price of the lost device time in `currency`; null without a rate."""
    currency: str
    """Empty without a rate."""


_Start = TypedDict("_Start", {"from": float})


class AuditEntry(_Start):
    """Device time that counts differently, `from` a moment in Unix seconds."""

    until: float
    """Unix seconds."""
    what: str
    """`planned`, `amended` or `unread`."""
    text: str


class Generation(TypedDict):
    """A former or the present objective of an SLO."""

    slo: str
    number: int
    """Rises with each change of the objective."""
    since_s: float
    """When it took effect, Unix seconds."""
    revision: str
    """A digest of the objective."""
    document: dict[str, Any]
    """The objective's terms."""
    written_by: str
    """Host and process of the collector that began the generation."""


class Burndown(TypedDict):
    """The remaining error budget over the window: equally long columns, empty without a budget."""

    at: list[float]
    """Unix seconds."""
    remaining: list[float]
    """Remaining share of the budget that the window has by now; negative once it is overspent."""


class SloDetail(SloLine):
    """An SLO with its window, incidents and audit."""

    window_begins_at: float | None
    """Unix seconds; null before the first slice."""
    window_ends_at: float
    """Unix seconds."""
    window_is_full: bool
    """True if a rolling window is shorter than the job's history."""
    burn_rate_hour: float | None
    """Burn rate in the last hour."""
    burndown: Burndown
    price: Price | None
    """Null without a rate card."""
    incidents: list[CostlyIncident]
    """The costliest incidents in the window."""
    audit: list[AuditEntry]


class SloInFull(SloDetail):
    """An SLO with its window, incidents, audit and former objectives."""

    generations: list[Generation]
    """The objectives so far, by number."""


class _SlosOfJob(TypedDict):
    """What surrounds a job's SLOs."""

    job: str
    state: JobState
    open_incidents: int | None
    device_seconds: dict[str, float]
    """Device-seconds over the job by cause."""
    causes: list[str]
    """The causes in the order of display."""


class JobSlos(_SlosOfJob):
    """A job's SLOs without their former objectives."""

    slos: list[SloDetail]


class JobSlosAnswer(_SlosOfJob, Dated):
    """A job's SLOs in full."""

    slos: list[SloInFull]


class Sli(TypedDict):
    """An SLI over the run."""

    name: str
    mission: str
    """Number in the list of the field's SLIs; empty without one."""
    unit: str
    value: float | None
    """Null if unknown."""
    events: float | None
    """Number of events, steps or devices behind the value."""
    low: float | None
    """Lower end of the 90 % interval."""
    high: float | None
    """Upper end of the 90 % interval."""
    detail: str
    """The value's evidence in words."""
    unknown: str
    """Why the value is unknown; else empty."""
    expected: str
    """The usual or required value in words."""


class JobSlis(TypedDict):
    """A job's SLIs over its run."""

    job: str
    state: JobState
    slos: list[SloLine]
    """Empty."""
    open_incidents: int | None
    slis: list[Sli]


class JobSlisAnswer(JobSlis, Dated):
    """A job's SLIs over its run."""
