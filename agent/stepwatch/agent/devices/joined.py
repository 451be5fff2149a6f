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
        known = list(rows)  # of the probes before: two rows of one probe are two devices
        for row in reading:
            same = next((each for each in known if _is_same(each, row)), None)
            if same is None:
                rows.append(_numbered(row.copy(), rows))
            elif int(same["lost"]) != 1:
                _fill(same, row)
    return np.array(rows, dtype=_FIELDS)


def _is_same(one: np.void, other: np.void) -> bool:
    if one["address"] and other["address"]:
        return bool(one["address"] == other["address"])
    return bool(one["device"] == other["device"])


def _numbered(row: np.void, others: Sequence[np.void]) -> np.void:
    """The row, with a number that none of the others has: two sources may count differently."""
    taken = {int(each["device"]) for each in others}
    if int(row["device"]) in taken:
        row["device"] = max(taken) + 1
    return row


def _fill(row: np.void, other: np.void) -> None:
    for name, unknown in _FILLED.items():
        if _is_unknown(row[name], unknown):
            row[name] = other[name]
    if int(row["activity"]) not in MEASURED and int(other["activity"]):
        row["activity"] = other["activity"]


def _is_unknown(value: Any, unknown: Any) -> bool:
    return bool(value == unknown) or bool(value != value)
