"""Metric families that omit unknown samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from stepwatch.signals import names
from stepwatch.signals.plain_text import plain_line

Value = float | None
Sample = tuple[Sequence[str], Value]
"""Label values, and the value: None or NaN if unknown."""


def gauge(metric: names.Metric, samples: Sequence[Sample]) -> GaugeMetricFamily:
    """Return a declared gauge with its samples; unknown ones are omitted."""
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    _fill(family, samples)
    return family


def counter(metric: names.Metric, samples: Sequence[Sample]) -> CounterMetricFamily:
    """Return a declared counter with its samples; unknown ones are omitted."""
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    _fill(family, samples)
    return family


def _fill(family: GaugeMetricFamily | CounterMetricFamily, samples: Sequence[Sample]) -> None:
    for labels, value in samples:
        if value is not None and not math.isnan(value):
            family.add_metric(list(map(plain_line, labels)), value)
