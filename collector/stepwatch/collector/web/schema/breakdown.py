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
    host_lead_seconds: float | None
    """The median host's lead at the end of a step."""
    clock_error_seconds: float | None


class StepTimeBreakdown(TypedDict):
    """Mean step time by part."""

    steps: tuple[int, int] | None
    """First and last step."""
    rank_steps: int
    """Number of reported (rank, step) cells."""
    step_seconds: float | None
    seconds: dict[str, float | None]
    """Seconds per step by part."""
    ratio: dict[str, float | None]
    """Share of the step by part."""


class PipelineStage(TypedDict):
    """A pipeline stage's shares of its ranks' step time."""

    stage: int
    ranks: int
    busy_ratio: float | None
    pipeline_wait_ratio: float | None
    collective_ratio: float | None
    bubble_ratio: float | None
    work_seconds: float | None
    """A typical rank's forward and backward time per step."""


class Pipeline(TypedDict):
    """The pipeline's stages and bubble."""

    stages: list[PipelineStage]
    bubble_ratio: float | None
    imbalance_ratio: float | None
    """The limiting stage's work over the mean: 1 is balanced."""
    limiting_stage: int | None
    limiting_ratio: float | None
    """Share of steps in which the limiting stage is the slowest."""
    schedule: str | None
    ideal_bubble_ratio: float | None


class MicrobatchCell(TypedDict):
    """A microbatch on a stage, means over the stage's ranks."""

    microbatch: int
    forward_busy_seconds: float | None
    forward_idle_before_seconds: float | None
    backward_busy_seconds: float | None
    backward_idle_before_seconds: float | None


class Chunk(TypedDict):
    """A rank's chunk of work; `began_seconds` counts from the rank's schedule entry."""

    microbatch: int
    work: str
    began_seconds: float | None
    seconds: float | None
    blocked_seconds: float | None
    idle_before_seconds: float | None


class StageTimes(TypedDict):
    """A stage's times in the sampled step, means over its ranks."""

    stage: int
    ranks: int
    busy_seconds: float | None
    blocked_seconds: float | None
    idle_seconds: float | None
    bubble_ratio: float | None
    microbatches: list[MicrobatchCell]
    rank: int
    """The stage's first rank, which `chunks` are about."""
    chunks: list[Chunk]


class Microbatches(TypedDict):
    """The microbatch timeline of the newest sampled step."""

    step: int
    ranks: int
    stages: list[StageTimes]
    left_out: int
    """Number of omitted cells."""


class WhatIf(TypedDict):
    """The effect of removing one problem from the newest steps."""

    scenario: str
    steps: int
    step_seconds: float | None
    """Resulting mean step time."""
    faster_ratio: float | None
    """Gain in steps per second."""
    device_hours: float | None
    """Saved device time in these steps."""


class Breakdown(TypedDict):
    """The newest steps' time by part, and what would make them faster."""

    timing: Timing
    step_time_breakdown: StepTimeBreakdown | None
    pipeline: Pipeline | None
    microbatches: Microbatches | None
    what_if: list[WhatIf]


class Collective(TypedDict):
    """An operation in a group; values per step, means over the members."""

    op: str
    group: int
    ranks: str
    """The members in words."""
    size: int | None
    members_seen: int
    steps: int
    evaluated_steps: int
    """Steps in which transfer and arrival skew are known separately."""
    calls: float | None
    bytes: float | None
    exposed_seconds: float | None
    transfer_seconds: float | None
    arrival_skew_seconds: float | None
    last_arriver: int | None
    """The rank that made the others wait longest."""
    last_arriver_ratio: float | None
    bus_bytes_per_second: float | None


class Collectives(TypedDict):
    """The newest steps' collectives, longest blocked first."""

    attempt: int
    steps: tuple[int, int] | None
    clock: Clock
    collectives: list[Collective]
    left_out: int


class CollectivesAnswer(Collectives, Dated):
    """The newest steps' collectives, longest blocked first."""
