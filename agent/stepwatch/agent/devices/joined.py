"""One row per device from several probes' readings.

Readers take a device's newest row, so only one probe may send it. NVML's values come first. GPM
fills values that NVML does not report, and DCGM fills the remaining ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwatch.signals.records import COMMON, DTYPES, MEASURED, UNKNOWN, Kind
from stepwatch.signals.wire import Rows

DEVICE_PROBES = ("nvml", "gpm", "dcgm")
"""Probes that read devices; an earlier probe's value has priority."""
_FIELDS = DTYPES[Kind.DEVICE]
_ALREADY = {*(name for name, _ in COMMON), "device", "address", "activity"}
_FILLED = {name: unknown for name, unknown in UNKNOWN[Kind.DEVICE].items() if name not in _ALREADY}


def joined(readings: Sequence[Rows]) -> Rows:
    """Join DEVICE rows from `readings`, ordered as in `DEVICE_PROBES`, into one row per device.

    Two rows are the same device if their PCI addresses match or, where one row has no address,
    their numbers. A lost device's row is not filled: another source may still hold old values.
    """
    rows: list[np.void] = []
    for reading in readings:
        earlier_rows = list(rows)  # from earlier probes: two rows from one probe are two devices
        for row in reading:
            match = next(
                (candidate for candidate in earlier_rows if _is_same(candidate, row)), None
            )
            if match is None:
                rows.append(_numbered(row.copy(), rows))
            elif int(match["lost"]) != 1:
                _fill(match, row)
    return np.array(rows, dtype=_FIELDS)


def _is_same(left_row: np.void, right_row: np.void) -> bool:
    if left_row["address"] and right_row["address"]:
        return bool(left_row["address"] == right_row["address"])
    return bool(left_row["device"] == right_row["device"])


def _numbered(row: np.void, rows: Sequence[np.void]) -> np.void:
    """Give the row a number that no other row has: two sources may count differently."""
    numbers = {int(device_row["device"]) for device_row in rows}
    if int(row["device"]) in numbers:
        row["device"] = max(numbers) + 1
    return row


def _fill(row: np.void, source: np.void) -> None:
    for name, unknown in _FILLED.items():
        if _is_unknown(row[name], unknown):
            row[name] = source[name]
    if int(row["activity"]) not in MEASURED and int(source["activity"]):
        row["activity"] = source["activity"]


def _is_unknown(value: Any, unknown: Any) -> bool:
    return bool(value == unknown) or bool(value != value)
