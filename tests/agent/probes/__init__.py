"""Probes on made sources."""

from __future__ import annotations

import numpy as np

from stepwatch.agent.probes import Probe
from stepwatch.signals.records import DTYPES, pack
from stepwatch.signals.wire import Rows


def rows_of(probe: Probe) -> Rows:
    """One read, as the agent gets it from the probe's process."""
    rows = probe.read()
    if isinstance(rows, list):
        return np.frombuffer(pack(probe.kind, rows), dtype=DTYPES[probe.kind])
    return rows
