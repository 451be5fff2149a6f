"""Values as OTLP sends them, without the SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

GAUGE, COUNTER, UP_DOWN_COUNTER, HISTOGRAM = "gauge", "counter", "updowncounter", "histogram"
"""Instruments; counters and histograms are cumulative."""


class Distribution(NamedTuple):
    """A histogram's counts: one for each interval up to a bound, and one above the last bound."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


class Point(NamedTuple):
    """One value for the metric `name`, with a unit in UCUM's notation."""

    name: str
    instrument: str
    unit: str
    attributes: dict[str, str]
    value: float | Distribution


class Group(NamedTuple):
    """The points of one resource, read at `wall_ns`."""

    resource: Mapping[str, str]
    points: list[Point]
    wall_ns: int
