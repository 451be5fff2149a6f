"""DEVICE records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepwatch.signals.records import Kind, Values, unknown_values

if TYPE_CHECKING:
    import numpy as np


def unknown_devices(count: int) -> list[Values]:
    """Return records for devices 0, 1, ... with every value unknown."""
    return [unknown_values(Kind.DEVICE, device=number) for number in range(count)]


def name_of(row: Mapping[str, Any] | np.void) -> str:
    """Return the PCI address as the kernel log writes it, else the device number.

    Facts from both sources then have the same subject.
    """
    return bytes(row["address"]).decode("ascii", "replace") or f"device {int(row['device'])}"
