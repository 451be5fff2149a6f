"""A job in the list, and in full."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from .breakdown import Breakdown
from .common import Clock, Dated, FigureClock, JobState, Money
from .incident import JobIncident, SeverityWord
from .recorded import Resume
from .slo import SloLine


class WorstIncident(TypedDict):
    """The open incident with the highest cost, an alert before all others."""

    id: str
    kind: str
    summary: str
    severity: SeverityWord
    began_at: float
    """Unix seconds."""
    throughput_lost_ratio: float | None
    """With two digits; null if unknown."""


class NodesOfJob(TypedDict):
    """Nodes that own ranks of the newest attempt."""

    count: int
    first: list[str]
    """A few, by name."""


class Goodput(TypedDict):
    """Productive share of the allocated device time."""

    today: float | None
    """Since midnight UTC."""
    run: float | None
    """Over the whole job."""


class Amount(TypedDict):
    """An amount of money."""

    amount: float
    currency: str


class VerifiedCheckpoint(TypedDict):
    """The newest checkpoint that a resume could load."""

    step: int | None
    saved_at: float | None
    """When saving began, Unix seconds."""
    reason: str
    """Why a value is unknown."""


class FleetFields(TypedDict):
    """A job's pace, use, money, safety and place; null values are unknown."""

    devices: int
    """Devices of the newest attempt, one a rank."""
    nodes: NodesOfJob
    job_class: str | None
    project: str | None
    pace: list[float]
    """Step times over the newest steps, in seconds, thinned for a sparkline."""
    goodput: Goodput
    cost_today: Amount | None
    """Since midnight UTC; null without a rate card."""
    verified_checkpoint: VerifiedCheckpoint


class JobLine(FleetFields):
    """A job's list entry; null values are unknown."""

    job: str
    attempt: int | None
    state: JobState
    reason: str | None
    """Why nothing is known about the job; else null."""
    since: float | None
    """The beginning of that state, Unix seconds."""
    world_size: int
    step: int | None
    """The newest step that every rank reported."""
    newest_record_at: float | None
    """When the newest record arrived, Unix seconds."""
    open_incidents: int | None
    worst: WorstIncident | None
    slos: list[SloLine]


class JobLineAnswer(JobLine, Dated):
    """A job's list entry."""


class JobsAnswer(TypedDict):
    """All jobs, latest written first, then known jobs without evaluation."""

    jobs: list[JobLineAnswer]


class StepSeconds(TypedDict):
    """Percentiles of the step time over the kept steps."""

    p50: float | None
    p95: float | None
    p99: float | None


class Pace(TypedDict):
    """Loss over all attempts; the newest attempt's speed."""

    loss_first: float | None
    loss_last: float | None
    tokens_per_second: float | None
    step_seconds: StepSeconds
    step_seconds_clock: Clock
    steps_on: dict[str, int]
    """Number of timed steps by clock."""
    recent_step_seconds: float | None
    """Median of the newest steps."""
    recent_step_seconds_clock: Clock


class TrackerRun(TypedDict):
    """The job's run in an experiment tracker."""

    tracker: str
    run: str
    url: str
    """Empty if it is unknown."""


class Rank(TypedDict):
    """A rank: its place and its shares of step time."""

    rank: int
    node: str | None
    stage: int | None
    process_state: int | None
    ended: str | None
    """How the rank's process ended; null while it runs."""
    phase: str | None
    phase_share: dict[str, float | None]
    """Share of step time by phase."""
    collective_wait_share: float | None
    pipeline_wait_share: float | None
    device_idle_share: float | None
    host_lead_seconds: float | None


Standing = Literal["absent", "slowest", "median", "fastest"]


class RankByCost(Rank):
    """A rank that shows where a job's time goes."""

    standing: Standing
    """Absent: its process is stopped or gone; else its place by self time."""
    self_seconds: float | None
    """Mean self time a step over the newest steps."""


class Checkpoint(TypedDict):
    """What ranks and agents reported of a checkpoint; null until it is reported."""

    step: int
    stall_seconds: float | None
    durable_seconds: float | None
    size_bytes: int | None
    verified: bool | None
    reason: str
    saved_s: float | None
    """When saving began, Unix seconds."""
    path: str
    file: str
    """The file that `reason` is about."""
    unknown: str
    """Why the files could not be verified."""
    is_removed: bool
    was_good: bool
    """Damage came after a verification."""
    is_damaged: bool
    is_rejected: bool
    """A run could not resume from it."""


class Attempt(TypedDict):
    """One attempt of a job."""

    attempt: int
    began_at: float | None
    first_step: int
    steps: int
    resume: Resume | None
    """What the attempt resumed from; null if it did not resume."""
    redone_from: int | float | None
    """The first step that a later attempt repeats."""


class SharedName(TypedDict):
    """Ranks that two nodes report at the same time: two jobs have one name."""

    ranks: int
    rank: int
    nodes: list[str]


class Averaging(TypedDict):
    """Ranks whose parameters are averaged periodically."""

    ranks: str
    """The ranks in words."""
    period_steps: int | None
    newest_step: int


class Unread(TypedDict):
    """An unreadable part of the log."""

    first: int
    last: int
    segments: int
    from_s: float | None
    until_s: float | None


class JobSummary(JobLine, Pace, Breakdown):
    """A job in full."""

    links: list[TrackerRun]
    ranks: list[Rank]
    """The first ranks; `world_size` counts all."""
    ranks_by_cost: list[RankByCost]
    """Absent ranks, the five slowest, the median and the fastest one."""
    checkpoints: list[Checkpoint]
    incidents: list[JobIncident]
    attempts: list[Attempt]
    device_seconds: dict[str, float]
    """Device-seconds over the job by cause."""
    cost: Money | None
    shared_name: SharedName | None
    averaging: list[Averaging]
    lost_records: int
    refused_records: int
    late_records: int
    """Records of steps that are no longer kept; they have no effect."""
    unread: list[Unread]
    not_looked_for: dict[str, str]
    """Kinds of incidents whose detector failed, with the reason."""


class JobAnswer(JobSummary, Dated):
    """A job in full."""


class Heatmap(TypedDict):
    """Seconds over rank bins and step bins: the maximum of each, null if unknown."""

    metric: str
    clock: Clock
    attempt: int
    ranks: list[tuple[int, int]]
    """First and last rank of each row."""
    steps: list[tuple[int, int]]
    """First and last step of each column."""
    seconds: list[list[float | None]]
    """Seconds by row and column."""


class HeatmapAnswer(Heatmap, Dated):
    """Seconds over rank bins and step bins."""


class Reading(TypedDict):
    """An SLI's value over the run, or the reason why it is unknown."""

    value: float | None
    unit: str
    unknown: str


class Block(TypedDict):
    """Equally many steps of a run, in time order."""

    steps: int
    tokens: int
    seconds: float


class PhaseSeconds(TypedDict):
    """Mean seconds per step over ranks by phase, in collectives and in pipeline waits."""

    steps: int
    seconds: dict[str, float]


class JobRun(TypedDict):
    """A run's data for comparison with other runs."""

    job: str
    job_class: str
    attempt: int
    state: JobState
    slos: list[SloLine]
    """Empty."""
    open_incidents: int | None
    began_at: float | None
    world_size: int
    clock: FigureClock | None
    blocks: list[Block]
    """Steps after the warm-up that every rank reported."""
    phase_seconds: PhaseSeconds
    slis: dict[str, Reading]
    device_seconds: dict[str, float]
    cost: Money | None
    incidents: dict[str, int]
    """Number of incidents by kind."""
    facts: dict[str, str]
    """Configuration, code, data and environment by name."""


class JobRunAnswer(JobRun, Dated):
    """A run's data for comparison with other runs."""
