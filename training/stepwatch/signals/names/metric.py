"""The parts of a metric."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class MetricKind(Enum):
    """Prometheus metric type."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One exported metric: its name in PromQL, type, help text and label names."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def series_names(self) -> tuple[str, ...]:
        """Names that a query may use: the name itself, or a histogram's three."""
        if self.kind is MetricKind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (self.name,)
