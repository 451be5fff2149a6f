"""The trials of a sweep."""

from __future__ import annotations

from typing_extensions import TypedDict

from .common import JobState, Money
from .recorded import Better


class MetricName(TypedDict):
    """A metric that a trial has."""

    name: str
    evaluation: str
    """Empty for training."""


class Extremes(MetricName):
    """A metric's least, greatest and last value over a trial; null without a finite value."""

    unit: str
    better: Better
    least: float | None
    greatest: float | None
    last: float | None
    non_finite: int
    """Number of values that are no finite numbers."""


class Trial(TypedDict):
    """A trial."""

    job: str
    state: JobState
    step: int | None
    began_at: float | None
    """Unix seconds."""
    device_seconds: float | None
    """Allocated device-seconds; null if unknown."""
    cost: Money | None
    """Null without a rate card."""
    settings: dict[str, str]
    """The trial's values of the settings that differ among the trials."""
    value: Extremes | None
    """The chosen metric; null if the trial does not have it."""


class SweepAnswer(TypedDict):
    """The newest trials whose names begin with `match`."""

    match: str
    metric: str
    evaluation: str
    count: int
    """Number of such trials; the answer may have fewer."""
    settings: list[str]
    """The settings that are not the same in all trials, the most reported first."""
    metrics: list[MetricName]
    trials: list[Trial]
