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


class MissingSeries(TypedDict):
    """A requested metric without values."""

    name: str
    reason: str


class Series(SeriesName):
    """A metric over time: equally long columns, one entry per step or bucket."""

    better: Better
    note: str
    attempt: list[int]
    step: list[int]
    """The last step of each bucket."""
    at: list[float | None]
    """Unix seconds."""
    mean: list[float | None]
    min: list[float | None]
    max: list[float | None]
    last: list[float | None]
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
    step: int | None
    attempt: int | None
    words: str
    id: str | None
    """The incident's id."""
    state: str | None


class MarksAnswer(_History):
    """A job's newest checkpoints, evaluations, restarts and incidents."""

    marks: list[Mark]


class MatrixRow(TypedDict):
    """The ranks `first` to `last`."""

    first: int
    last: int
    words: str
    nodes: list[str]


class MatrixAnswer(_History):
    """Seconds over rows of ranks and columns of steps: the maximum of each cell."""

    metric: str
    clock: Clock
    by: Annotated[str, OneOf(("rank", "node", "stage"))]
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
