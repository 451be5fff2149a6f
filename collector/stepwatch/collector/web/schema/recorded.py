"""A job's metrics, checkpoints and resumes."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from stepwatch.collector.analysis.resumes.data_order import DataOrder

from .common import Dated, JobState, OneOf
from .slo import SloLine

Better = Annotated[str, OneOf(("lower", "higher", ""))]
"""Which values of a metric are better; empty if neither is known to be."""
LastValue = float | str
"""A number, or `NaN`, `Infinity`, `-Infinity` in words."""


class NewestValue(TypedDict):
    """A curve's newest point."""

    first_step: int
    step: int
    at: float | None
    """Unix seconds."""
    mean: float | None
    """Null without a finite value."""
    min: float | None
    max: float | None
    last: LastValue | None
    values: int
    """Number of finite values."""
    non_finite: int
    """Number of values that are no finite numbers."""


class Curve(TypedDict):
    """A metric over steps: equally long columns, one entry per step or bucket."""

    first_step: list[int]
    step: list[int]
    """The last step of each bucket."""
    at: list[float | None]
    """Unix seconds."""
    mean: list[float | None]
    """Null without a finite value."""
    min: list[float | None]
    max: list[float | None]
    last: list[LastValue | None]
    values: list[int]
    """Number of finite values."""
    non_finite: list[int]
    """Number of values that are no finite numbers."""


class Metric(TypedDict):
    """A metric that the trainer recorded."""

    name: str
    evaluation: str
    """The evaluation that it belongs to; empty for training."""
    unit: str
    better: Better
    note: str
    """The trainer's remark on the metric; else empty."""
    newest: NewestValue
    curves: dict[str, Curve]
    """Curves by resolution, finest first."""


class JobMetrics(TypedDict):
    """The metrics of a job with their curves over all attempts."""

    job: str
    state: JobState
    slos: list[SloLine]
    """Empty."""
    open_incidents: int | None
    attempt: int
    refused_names: int
    """Number of metrics beyond the limit."""
    unnamed_values: int
    """Number of values without a known name."""
    metrics: list[Metric]


class JobMetricsAnswer(JobMetrics, Dated):
    """The metrics of a job with their curves over all attempts."""


class Recovery(TypedDict):
    """The work that a resume now would lose."""

    step: int | None
    """Step of the newest good checkpoint."""
    steps: int | None
    """Steps since then; null without a good checkpoint."""
    seconds: float | None
    """Work since the end of that step."""
    reason: str
    """Why `seconds` is unknown; else empty."""


class CheckpointLine(TypedDict):
    """A checkpoint and its state."""

    step: int
    attempt: int
    state: Annotated[
        str,
        OneOf(("verified", "written", "writing", "damaged", "failed", "removed", "unknown")),
    ]
    reason: str
    """Why it is bad, or not verified; else empty."""
    file: str
    """The file that `reason` is about; else empty."""
    path: str
    """Empty if no rank reported it."""
    saved_at: float | None
    """Unix seconds."""
    age_seconds: float | None
    """Time since saving began."""
    size_bytes: int | None
    stall_seconds: float | None
    """Time for which training waited."""
    durable_seconds: float | None
    """Time until all of it was on the storage."""


class JobCheckpoints(TypedDict):
    """A job's checkpoints, newest first."""

    job: str
    attempt: int | None
    state: JobState
    step: int | None
    open_incidents: int | None
    slos: list[SloLine]
    """Empty."""
    recovery: Recovery
    left_out: int
    """Number of older checkpoints that are not listed."""
    checkpoints: list[CheckpointLine]


class JobCheckpointsAnswer(JobCheckpoints, Dated):
    """A job's checkpoints, newest first."""


class Compared(TypedDict):
    """Whether a resume continued the earlier run's loss, rate and data; null is unknown."""

    loss_before: float | None
    """Median loss before the interruption."""
    loss_after: float | None
    """Median loss after the resume."""
    loss_continued: bool | None
    learning_rate_continued: bool | None
    data_order: Annotated[str, OneOf(tuple(order.value for order in DataOrder))]


class Resume(Compared):
    """What a resume continued; null is unknown."""

    step: int
    path: str
