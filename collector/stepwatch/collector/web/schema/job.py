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
    """Number of nodes; 0 until a rank reports."""
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
    """As the rate card names it."""


class VerifiedCheckpoint(TypedDict):
    """The newest checkpoint that a resume could load."""

    step: int | None
    """Null while no checkpoint is verified."""
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
    """Null if the job names none."""
    project: str | None
    """Null if the job names none."""
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
    """Number of the newest attempt, from 0."""
    state: JobState
    reason: str | None
    """Why nothing is known about the job; else null."""
    since: float | None
    """The beginning of that state, Unix seconds."""
    world_size: int
    """Number of ranks of the newest attempt; 0 until one reports."""
    step: int | None
    """The newest step that every rank reported."""
    newest_record_at: float | None
    """When the newest record arrived, Unix seconds."""
    open_incidents: int | None
    """Null while the job is not evaluated."""
    worst: WorstIncident | None
    """Null without an open incident."""
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
    """The first recorded loss."""
    loss_last: float | None
    """The newest recorded loss."""
    tokens_per_second: float | None
    """Over all ranks; null if no rank reports tokens."""
    step_seconds: StepSeconds
    step_seconds_clock: Clock
    """The clock of `step_seconds`."""
    steps_on: dict[str, int]
    """Number of timed steps by clock."""
    recent_step_seconds: float | None
    """Median of the newest steps."""
    recent_step_seconds_clock: Clock
    """The clock of `recent_step_seconds`."""


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
    """Pipeline stage."""
    process_state: int | None
    """Number of the process state that the agent read; null without a report."""
    ended: str | None
    """How the rank's process ended; null while it runs."""
    phase: str | None
    """The phase in which the rank is now; null while it is in none."""
    phase_share: dict[str, float | None]
    """Share of step time by phase."""
    collective_wait_share: float | None
    """Share of step time in exposed collectives, transfer included."""
    pipeline_wait_share: float | None
    """Share of step time in waits for another pipeline stage."""
    device_idle_share: float | None
    """Share of step time without enqueued work; null on the host clock."""
    host_lead_seconds: float | None
    """The median time by which the host is ahead of the device at the end of a step."""


Standing = Literal["absent", "slowest", "median", "fastest"]


class RankByCost(Rank):
    """A rank that shows where a job's time goes."""

    standing: Standing
    """Absent: its process is stopped or gone; else its place by self time."""
    self_seconds: float | None
    """Mean self time a step over the newest steps."""


class Checkpoint(TypedDict):
    """A checkpoint as ranks and agents reported it; null until reported."""

    step: int
    stall_seconds: float | None
    """Longest time for which a rank waited."""
    durable_seconds: float | None
    """Time until all of it was on the storage."""
    size_bytes: int | None
    verified: bool | None
    """True if all files match their checksums."""
    reason: str
    """Why it is bad; else empty."""
    saved_s: float | None
    """When saving began, Unix seconds."""
    path: str
    """Empty if no rank reported it."""
    file: str
    """The file that `reason` is about."""
    unknown: str
    """Why the files could not be verified."""
    is_removed: bool
    """The files were deleted or replaced."""
    was_good: bool
    """Damage came after a verification."""
    is_damaged: bool
    """An agent found a damaged file."""
    is_rejected: bool
    """A run could not resume from it."""


class Attempt(TypedDict):
    """One attempt of a job."""

    attempt: int
    began_at: float | None
    """Unix seconds; null until a rank reports it."""
    first_step: int
    steps: int
    resume: Resume | None
    """What the attempt resumed from; null if it did not resume."""
    redone_from: int | float | None
    """The first step that a later attempt repeats."""


class SharedName(TypedDict):
    """Ranks that two nodes report at the same time: two jobs have one name."""

    ranks: int
    """Number of such ranks."""
    rank: int
    """The lowest such rank."""
    nodes: list[str]
    """The nodes that report `rank`."""


class Averaging(TypedDict):
    """Ranks whose parameters are averaged periodically."""

    ranks: str
    """The ranks in words."""
    period_steps: int | None
    """Steps between two averages; null until three are known."""
    newest_step: int
    """Step of the newest average."""


class Unread(TypedDict):
    """An unreadable part of the log."""

    first: int
    """First unread position in the log."""
    last: int
    """Last unread position in the log."""
    segments: int
    """Number of unread segments."""
    from_s: float | None
    """Unix seconds."""
    until_s: float | None
    """Unix seconds."""


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
    """Null without a rate card."""
    shared_name: SharedName | None
    averaging: list[Averaging]
    lost_records: int
    """Records that agents lost before they were sent."""
    refused_records: int
    """Records that the collector could not use."""
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
    """Why `value` is null; else empty."""


class Block(TypedDict):
    """Equally many steps of a run, in time order."""

    steps: int
    tokens: int
    """Sum over all ranks."""
    seconds: float
    """Sum of the step times."""


class PhaseSeconds(TypedDict):
    """Mean seconds per step over ranks by phase, in collectives and in pipeline waits."""

    steps: int
    """Number of steps behind the means."""
    seconds: dict[str, float]


class JobRun(TypedDict):
    """A run's data for comparison with other runs."""

    job: str
    job_class: str
    """Empty if the job names none."""
    attempt: int
    state: JobState
    slos: list[SloLine]
    """Empty."""
    open_incidents: int | None
    began_at: float | None
    """Unix seconds; null until a rank reports it."""
    world_size: int
    clock: FigureClock | None
    blocks: list[Block]
    """Steps after the warm-up that every rank reported."""
    phase_seconds: PhaseSeconds
    slis: dict[str, Reading]
    device_seconds: dict[str, float]
    """Device-seconds over the job by cause."""
    cost: Money | None
    """Null without a rate card."""
    incidents: dict[str, int]
    """Number of incidents by kind."""
    facts: dict[str, str]
    """Configuration, code, data and environment by name."""


class JobRunAnswer(JobRun, Dated):
    """A run's data for comparison with other runs."""
