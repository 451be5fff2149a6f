"""The `gpm` probe: how active the parts of each device are, by the driver's GPM (Hopper and later).

Its values go into the device's row that the `nvml` probe reads. What has no GPM is unknown, with
the reason in `activity`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Self

from stepwatch.agent.devices.rows import unknown_rows
from stepwatch.agent.probes.nvml.driver import Driver
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import Clock
from stepwatch.signals.records import Activity, Kind
from stepwatch.signals.wire import Rows

from .samples import Samples


class GpmProbe(Probe):
    """Takes a sample of each device at each read; values are means since the read before."""

    name = "gpm"
    kind = Kind.DEVICE
    expendable = False
    # Longer than those of nvml: a driver that hangs is late there first, and one fault, not two.
    deadline_seconds = 12.0
    first_seconds = 32.0
    yields_to = "nvml"

    def __init__(self, clock: Clock, library: ModuleType | None = None) -> None:
        self._clock = clock
        self._driver = Driver(library, listens=False)
        self._samples = Samples(self._driver)
        self._driver.before_close = self._samples.free

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Make the probe of this node."""
        return cls(context.clock)

    def supported(self) -> bool:
        """Whether there is a driver, with a device."""
        return bool(self._driver.devices())

    def read(self) -> Rows:
        """One row per device; the values of the first read are unknown.

        Raises:
            OSError: the driver does not answer.
        """
        handles = self._driver.devices()
        if handles is None:
            raise OSError("the NVIDIA driver does not answer")
        rows = unknown_rows(len(handles))
        for number, (row, handle) in enumerate(zip(rows, handles, strict=True)):
            now = self._clock.monotonic_ns()
            row["time_ns"] = now
            row["address"] = self._driver.address(number, handle).encode()
            row["activity"] = reason = self._reason(handle)
            if reason is not Activity.UNKNOWN or handle is None:
                self._samples.forget(number)
                continue
            if not self._samples.take(number, handle, now):
                row["activity"] = Activity.REFUSED
            for name, value in self._samples.values(number).items():
                row["activity"], row[name] = Activity.GPM, value
        return rows

    def close(self) -> None:
        """Release the samples and the driver."""
        self._driver.close()

    def _reason(self, handle: Any) -> Activity:
        """Why nothing can be measured of a device; UNKNOWN where it can."""
        mig = self._driver.ask("nvmlDeviceGetMigMode", handle)
        if mig is not None and mig[0] == 1:
            return Activity.DIVIDED
        support = self._driver.ask("nvmlGpmQueryDeviceSupport", handle)
        if support is None or not support.isSupportedDevice:
            return Activity.NOT_SUPPORTED
        return Activity.UNKNOWN
