"""Where the time of the newest steps goes: parts, pipeline, microbatches, collectives."""

from __future__ import annotations

from typing_extensions import TypedDict

from .common import Clock, Dated


class Timing(TypedDict):
    """The clock of the newest steps, and the use of devices; null is unknown."""

    clock: Clock
    reason: str | None
    """Why steps are timed on the host."""
    devices: list[str]
    """Types of the devices that time steps."""
    idle_seconds: dict[str, float | None]
    """Seconds per step without enqueued work, by phase."""
    idle_ratio: float | None
    """All idle time over the step."""
    late_host_ratio: float | None
    """Part of the step in which a device waits for its host."""
    launch_bound: bool | None
    """True if devices wait for their hosts for a fifth of the step or more."""
    host_lead_seconds: float | None
    """The median host's lead at the end of a step."""
    clock_error_seconds: float | None
    """Uncertainty between device and host times."""


class StepTimeBreakdown(TypedDict):
    """Mean step time by part."""

    steps: tuple[int, int] | None
    """First and last step."""
    rank_steps: int
    """Number of reported (rank, step) cells."""
    step_seconds: float | None
    """Mean step time."""
    seconds: dict[str, float | None]
    """Seconds per step by part."""
    ratio: dict[str, float | None]
    """Share of the step by part."""


class PipelineStage(TypedDict):
    """A pipeline stage's shares of its ranks' step time."""

    stage: int
    ranks: int
    """Number of ranks."""
    busy_ratio: float | None
    """Share of the step in work, saves and evaluations left out."""
    pipeline_wait_ratio: float | None
    """Share in waits for another stage."""
    collective_ratio: float | None
    """Share in collectives."""
    bubble_ratio: float | None
    """Share of the step that is not busy, saves and evaluations left out."""
    work_seconds: float | None
    """A typical rank's forward and backward time per step."""


class Pipeline(TypedDict):
    """The pipeline's stages and bubble."""

    stages: list[PipelineStage]
    bubble_ratio: float | None
    """Pipeline wait over forward, backward and pipeline wait."""
    imbalance_ratio: float | None
    """The limiting stage's work over the mean: 1 is balanced."""
    limiting_stage: int | None
    """The stage with the most work."""
    limiting_ratio: float | None
    """Share of steps in which the limiting stage is the slowest."""
    schedule: str | None
    """Name of the schedule; null if no rank reports it."""
    ideal_bubble_ratio: float | None
    """The schedule's own bubble; null if it is unknown."""


class MicrobatchCell(TypedDict):
    """A microbatch on a stage, means over the stage's ranks."""

    microbatch: int
    forward_busy_seconds: float | None
    forward_idle_before_seconds: float | None
    """Idle time before its forward."""
    backward_busy_seconds: float | None
    """Both parts of a split backward."""
    backward_idle_before_seconds: float | None
    """Idle time before its backward."""


class Chunk(TypedDict):
    """A rank's chunk of work; `began_seconds` counts from the rank's schedule entry."""

    microbatch: int
    work: str
    """Kind of the work: forward, or a part of backward."""
    began_seconds: float | None
    seconds: float | None
    """Length of the chunk."""
    blocked_seconds: float | None
    """Time within it in collectives."""
    idle_before_seconds: float | None
    """Idle time before it."""


class StageTimes(TypedDict):
    """A stage's times in the sampled step, means over its ranks."""

    stage: int
    ranks: int
    """Number of known ranks."""
    busy_seconds: float | None
    blocked_seconds: float | None
    """Time in collectives."""
    idle_seconds: float | None
    bubble_ratio: float | None
    """Idle over idle and busy; null if both are 0."""
    microbatches: list[MicrobatchCell]
    rank: int
    """The stage's first rank, which `chunks` are about."""
    chunks: list[Chunk]


class Microbatches(TypedDict):
    """The microbatch timeline of the newest sampled step."""

    step: int
    ranks: int
    """Number of known ranks."""
    stages: list[StageTimes]
    left_out: int
    """Number of omitted cells."""


class WhatIf(TypedDict):
    """The effect of removing one problem from the newest steps."""

    scenario: str
    steps: int
    """Number of steps that are evaluated."""
    step_seconds: float | None
    """Resulting mean step time."""
    faster_ratio: float | None
    """Gain in steps per second."""
    device_hours: float | None
    """Saved device time in these steps."""


class Breakdown(TypedDict):
    """The newest steps' time by part, and the gain if a problem were removed."""

    timing: Timing
    step_time_breakdown: StepTimeBreakdown | None
    pipeline: Pipeline | None
    microbatches: Microbatches | None
    what_if: list[WhatIf]


class Collective(TypedDict):
    """An operation in a group; values per step, means over the members."""

    op: str
    group: int
    """Number of the process group."""
    ranks: str
    """The members in words."""
    size: int | None
    """Number of members; null if it is unknown."""
    members_seen: int
    """Number of members that report."""
    steps: int
    """Steps with such a call."""
    evaluated_steps: int
    """Steps in which transfer and arrival skew are known separately."""
    calls: float | None
    """Calls per step."""
    bytes: float | None
    """Bytes per step."""
    exposed_seconds: float | None
    """Time for which compute waits for it."""
    transfer_seconds: float | None
    """Part of the exposed time in which data moves."""
    arrival_skew_seconds: float | None
    """Part of the exposed time spent in a wait for the last member."""
    last_arriver: int | None
    """The rank that made the others wait longest."""
    last_arriver_ratio: float | None
    """Share of the waits that this rank caused."""
    bus_bytes_per_second: float | None
    """Transfer rate, comparable with the hardware's bandwidth whatever the size."""


class Collectives(TypedDict):
    """The newest steps' collectives, longest blocked first."""

    attempt: int
    steps: tuple[int, int] | None
    """First and last step; null before the first."""
    clock: Clock
    collectives: list[Collective]
    left_out: int
    """Number of lines that are not listed."""


class CollectivesAnswer(Collectives, Dated):
    """The newest steps' collectives, longest blocked first."""
