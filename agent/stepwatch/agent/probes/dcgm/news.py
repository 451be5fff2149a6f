"""When a gauge that keeps its last value says something new."""

from __future__ import annotations

import math

from .page import Device


class XidNews:
    """Follows DCGM_FI_DEV_XID_ERRORS, which holds the last XID error until the driver is reloaded
    or the exporter restarted (NVIDIA/dcgm-exporter#500, NVIDIA/DCGM#277).

    Its value says nothing of when. A change is an error; so is what appears on a device that was
    known without; what was there at first is old, unless it comes with the time of the error. The
    same number twice in a row is not seen.
    """

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def new_code(self, device: Device) -> int:
        """The number of an error that is new; 0 where none is."""
        previous = self._last.get(device.number)
        if math.isnan(device.xid):
            self._last.setdefault(device.number, 0)
            return 0
        now = self._last[device.number] = int(device.xid)
        if now <= 0 or now == previous:
            return 0
        return 0 if previous is None and math.isnan(device.xid_at) else now
