"""Device readings as metrics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepwatch.agent.probes.probe import Gauge
from stepwatch.signals.names import DEVICE_METRICS
from stepwatch.signals.records import UNKNOWN, Kind
from stepwatch.signals.wire import Rows

from .rows import name_of


def device_gauges(rows: Rows) -> Iterator[Gauge]:
    """Yield all known values by device, labelled with its PCI address, else with its number."""
    for row in rows:
        name = name_of(row)
        for field, metric in DEVICE_METRICS.items():
            value = float(row[field])
            if np.isfinite(value) and value != UNKNOWN[Kind.DEVICE][field]:
                yield Gauge(metric, (name,), value)
