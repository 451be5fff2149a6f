"""The `gpm` probe: device activity from the driver's GPM (Hopper and later).

Its values join the `nvml` probe's device row. A device without GPM is unknown, with the reason in
`activity`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Self

from stepwatch.agent.devices.rows import unknown_devices
from stepwatch.agent.probes.nvml.driver import Driver, is_installed
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import Clock
from stepwatch.signals.records import Activity, Kind, Values

from .samples import Samples


class GpmProbe(Probe):
    """Take one sample per device and read; values are means since the previous read."""

    name = "gpm"
    kind = Kind.DEVICE
    expendable = False
    # Longer than nvml's: a stuck driver times out there first, which gives one fault instead of
    # two.
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
        """Build this node's probe."""
        return cls(context.clock)

    def helper(self) -> str:
        """Return a process apart from other probes if this node has the driver's library."""
        return "driver" if is_installed() else super().helper()

    def supported(self) -> bool:
        """Return whether there is a driver with a device."""
        return bool(self._driver.devices())

    def read(self) -> list[Values]:
        """Return one record per device; the first read's values are unknown.

        Raises:
            OSError: the driver does not answer.
        """
        handles = self._driver.devices()
        if handles is None:
            raise OSError("the NVIDIA driver does not answer")
        rows = unknown_devices(len(handles))
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
        """Return the reason why a device cannot be measured; UNKNOWN if it can."""
        mig = self._driver.ask("nvmlDeviceGetMigMode", handle)
        if mig is not None and mig[0] == 1:
            return Activity.DIVIDED
        support = self._driver.ask("nvmlGpmQueryDeviceSupport", handle)
        if support is None or not support.isSupportedDevice:
            return Activity.NOT_SUPPORTED
        return Activity.UNKNOWN
