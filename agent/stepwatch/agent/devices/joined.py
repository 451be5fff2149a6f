"""One row for each device from the readings of several probes.

Readers take the newest row of a device, so two probes must not send one each. What NVML reports
wins; what it does not report is taken from GPM, and what neither does from DCGM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwatch.signals.records import COMMON, DTYPES, MEASURED, UNKNOWN, Kind
from stepwatch.signals.wire import Rows

DEVICE_PROBES = ("nvml", "gpm", "dcgm")
"""Probes that read devices; the value of an earlier one stands."""
_FIELDS = DTYPES[Kind.DEVICE]
_ALREADY = {*(name for name, _ in COMMON), "device", "address", "activity"}
_FILLED = {name: unknown for name, unknown in UNKNOWN[Kind.DEVICE].items() if name not in _ALREADY}


def joined(readings: Sequence[Rows]) -> Rows:
    """The DEVICE rows of `readings`, in the order of `DEVICE_PROBES`, as one row for each device.

    A device is the same by its PCI address, or where one of the two has none, by its number. Of a
    device that is lost nothing is filled in: another source may still hold what was.
    """
    rows: list[np.void] = []
    for reading in readings:
        earlier_rows = list(rows)  # of the probes before: two rows of one probe are two devices
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
    """The row, with a number that none of the others has: two sources may count differently."""
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
