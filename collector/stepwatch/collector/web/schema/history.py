"""A job over time: curves, device time by cause, marks, and the matrix of ranks and steps."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from .common import Clock, Dated, JobState, OneOf
from .recorded import Better

_Start = TypedDict("_Start", {"from": float | None})


class SeriesName(TypedDict):
    """A metric that a job has."""

    name: str
    evaluation: str
    """Empty for training."""
    unit: str
    """Empty if the metric names none."""


class MissingSeries(TypedDict):
    """A requested metric without values."""

    name: str
    reason: str
    """Why there is no value, and what to do."""


class Series(SeriesName):
    """A metric over time: equally long columns, one entry per step or bucket."""

    better: Better
    note: str
    """The trainer's remark on the metric; else empty."""
    attempt: list[int]
    step: list[int]
    """The last step of each bucket."""
    at: list[float | None]
    """Unix seconds."""
    mean: list[float | None]
    """Null without a finite value."""
    min: list[float | None]
    max: list[float | None]
    last: list[float | None]
    """The newest value of each entry; null if it is not finite."""
    non_finite: list[int]
    """Number of values that are no finite numbers."""


class _History(Dated):
    """What every answer about a job's history has."""

    job: str
    state: JobState
    attempt: int


class SeriesAnswer(_History, _Start):
    """Metrics of a job over time; missing steps and times are gaps."""

    to: float | None
    """End of the period, Unix seconds; it begins at `from`."""
    resolution: Annotated[str, OneOf(("step", "10s", "1min", "5min", "15min", "1h"))]
    series: list[Series]
    missing: list[MissingSeries]
    available: list[SeriesName]
    """All metrics with a value, shown or not."""


class SpentAnswer(_History):
    """A job's device time by cause over time: equally long columns, one entry per bucket."""

    at: list[float]
    """Start of each bucket, Unix seconds."""
    seconds: list[float]
    """Length of each bucket."""
    causes: dict[str, list[float | None]]
    """Device-seconds of each bucket by cause; `unknown` is a cause."""


class Mark(TypedDict):
    """A moment or a period of a job that curves show; null is unknown."""

    kind: Annotated[str, OneOf(("checkpoint", "evaluation", "restart", "incident"))]
    at: float | None
    """Unix seconds."""
    until: float | None
    """The end, or when a checkpoint was on the storage, Unix seconds; null if open or unknown."""
    step: int | None
    attempt: int | None
    words: str
    """The mark in words."""
    id: str | None
    """The incident's id."""
    state: str | None
    """State of the checkpoint or the incident."""


class MarksAnswer(_History):
    """A job's newest checkpoints, evaluations, restarts and incidents."""

    marks: list[Mark]


class MatrixRow(TypedDict):
    """The ranks `first` to `last`."""

    first: int
    last: int
    words: str
    """The ranks, nodes or stages in words."""
    nodes: list[str]
    """A few of the ranks' nodes."""


class MatrixAnswer(_History):
    """Seconds over rows of ranks and columns of steps: the maximum of each cell."""

    metric: str
    """The time that cells show."""
    clock: Clock
    by: Annotated[str, OneOf(("rank", "node", "stage"))]
    """What a row is."""
    rows: list[MatrixRow]
    steps: list[tuple[int, int]]
    """First and last step of each column."""
    at: list[float | None]
    """End of each column, Unix seconds."""
    seconds: list[list[float | None]]
    """Seconds by row and column; null is unknown."""
    slowest: list[list[int | None]]
    """The rank with the maximum by row and column."""
    known_steps: tuple[int, int] | None
    """First and last step of the whole history."""
