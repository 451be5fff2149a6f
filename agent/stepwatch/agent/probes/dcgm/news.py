"""Detects a new value in a gauge that keeps its last value."""

from __future__ import annotations

import math

from .page import Device


class XidNews:
    """Follow DCGM_FI_DEV_XID_ERRORS, which holds the last XID error until a restart.

    A restart of the driver or the exporter clears it (NVIDIA/dcgm-exporter#500, NVIDIA/DCGM#277).
    The value has no time. A change is an error, and so is a first value on a device that was read
    without one. An initial value is old, unless it has the error's timestamp. The same number twice
    in a row is not detected.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def new_code(self, device: Device) -> int:
        """Return a new error's number; 0 if there is none."""
        previous = self._last.get(device.number)
        if math.isnan(device.xid):
            self._last.setdefault(device.number, 0)
            return 0
        now = self._last[device.number] = int(device.xid)
        if now <= 0 or now == previous:
            return 0
        return 0 if previous is None and math.isnan(device.xid_at) else now
