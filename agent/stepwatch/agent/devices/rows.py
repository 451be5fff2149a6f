"""Rows of readings of devices."""

from __future__ import annotations

import numpy as np

from stepwatch.signals.records import DTYPES, UNKNOWN, Kind
from stepwatch.signals.wire import Rows


def unknown_rows(count: int) -> Rows:
    """DEVICE rows of devices 0, 1, ... of which nothing is known yet."""
    rows = np.zeros(count, dtype=DTYPES[Kind.DEVICE])
    for name, unknown in UNKNOWN[Kind.DEVICE].items():
        rows[name] = unknown
    rows["device"] = range(count)
    return rows


def name_of(row: np.void) -> str:
    """A device as the subject of a fact: its PCI address, as the kernel's log names it, so that
    both speak of one; its number where it has none."""
    return bytes(row["address"]).decode("ascii", "replace") or f"device {int(row['device'])}"
