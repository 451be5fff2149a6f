"""DEVICE rows."""

from __future__ import annotations

import numpy as np

from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows


def unknown_rows(count: int) -> Rows:
    """Return rows for devices 0, 1, ... with every value unknown."""
    return make_rows(Kind.DEVICE, count, device=range(count))


def name_of(row: np.void) -> str:
    """Return the PCI address as the kernel log writes it, else the device number.

    Facts from both sources then have the same subject.
    """
    return bytes(row["address"]).decode("ascii", "replace") or f"device {int(row['device'])}"
