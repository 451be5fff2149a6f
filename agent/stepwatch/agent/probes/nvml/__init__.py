"""The `nvml` probe: device values from the NVIDIA driver.

A value that the driver does not report is unknown; a device that does not answer is lost.
XID errors arrive as events and are collected at each read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from stepwatch.agent.devices.rows import unknown_devices
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import Clock
from stepwatch.signals.records import UNKNOWN_FLOAT, Kind, Values

from .driver import Driver, Xid, is_installed
from .faults import Faults
from .links import Link, LinkReader

MEGAHERTZ, MILLIWATT = 1e6, 1e-3


class NvmlProbe(Probe):
    """Read this node's devices; `library` is the pynvml module, imported by default."""

    name = "nvml"
    kind = Kind.DEVICE
    expendable = False
    deadline_seconds = 10.0  # healthy drivers answer in milliseconds, busy ones in a second or two
    first_seconds = 30.0  # without persistence mode the driver initialises each device in turn

    def __init__(
        self, clock: Clock, library: ModuleType | None = None, sys: Path = Path("/sys")
    ) -> None:
        self._clock = clock
        self._driver = Driver(library)
        self._faults = Faults(self._driver, sys)
        self._links = LinkReader(self._driver)
        self._sightings: list[Sighting] = []
        self._owners: list[set[int]] = []

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        return cls(context.clock, sys=context.sys)

    def helper(self) -> str:
        """Return a process apart from other probes if this node has the driver's library."""
        return "driver" if is_installed() else super().helper()

    def supported(self) -> bool:
        """Return whether there is a driver with a device."""
        return bool(self._driver.devices())

    def read(self) -> list[Values]:
        """Return one record per device.

        Raises:
            OSError: the driver does not answer.
        """
        handles = self._driver.devices()
        if handles is None:
            raise OSError("the NVIDIA driver does not answer")
        self._driver.collect_events()
        self._owners = self._processes(handles)
        rows = unknown_devices(len(handles))
        links = self._links.read(handles, self._clock.monotonic_ns())
        for number, (row, handle) in enumerate(zip(rows, handles, strict=True)):
            row["time_ns"] = self._clock.monotonic_ns()
            row["address"] = self._driver.address(number, handle).encode()
            row |= self._values(number, handle, links[number])
        self._sightings = self._faults.find(handles, rows, self._owners, links)
        return rows

    def facts(self) -> Sequence[Sighting]:
        """Return the device faults."""
        return self._sightings

    def owners(self) -> Sequence[set[int]]:
        """Return the processes that compute on each device."""
        return self._owners

    def close(self) -> None:
        """Release the driver."""
        self._driver.close()

    def _processes(self, handles: list[Any]) -> list[set[int]]:
        """Return the processes that compute on each device, by the driver's process ids."""
        # A lost device's handle is None, for which the driver returns nothing.
        ask = functools.partial(self._driver.ask, "nvmlDeviceGetComputeRunningProcesses")
        return [{int(process.pid) for process in ask(handle) or ()} for handle in handles]

    def _values(self, number: int, handle: Any, links: Sequence[Link]) -> dict[str, float]:
        """Return a device's values from the driver; a missing field is unknown."""
        if handle is None:
            return {"lost": 1}
        nvml, ask = self._driver.library, functools.partial(self._driver.ask, handle=handle)
        fixed = functools.partial(self._driver.ask_once, handle=handle)
        lost, celsius = self._temperature(handle)
        use, memory = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetMemoryInfo")
        xid = self._driver.xids.get(number, Xid())
        throttle = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        listening = number in self._driver.listening
        mig = ask("nvmlDeviceGetMigMode")
        return {
            "lost": lost,
            "mig": -1 if mig is None else mig[0],
            "throttle": -1 if throttle is None else throttle,
            "xid": min(xid.newest, 2**31 - 1) if listening else -1,
            "xid_count": xid.total if listening else UNKNOWN_FLOAT,
            "busy_ratio": UNKNOWN_FLOAT if use is None else use.gpu / 100.0,
            "memory_used_bytes": UNKNOWN_FLOAT if memory is None else memory.used,
            "memory_total_bytes": UNKNOWN_FLOAT if memory is None else memory.total,
            "clock_hertz": _times(ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), MEGAHERTZ),
            "clock_limit_hertz": _times(
                fixed("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM), MEGAHERTZ
            ),
            "power_watts": _times(ask("nvmlDeviceGetPowerUsage"), MILLIWATT),
            "power_limit_watts": _times(ask("nvmlDeviceGetEnforcedPowerLimit"), MILLIWATT),
            "temperature_celsius": celsius,
            "ecc_corrected": self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            "ecc_uncorrected": self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            "pcie_replays": _times(ask("nvmlDeviceGetPcieReplayCounter")),
            "nvlink_errors": _sum_of_errors(links),
        }

    def _temperature(self, handle: Any) -> tuple[int, float]:
        """Return 1 if lost, 0 if present, -1 if unknown, and the temperature in degrees Celsius."""
        nvml = self._driver.library
        try:
            return 0, float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        except nvml.NVMLError as error:
            return 1 if error.value == nvml.NVML_ERROR_GPU_IS_LOST else -1, UNKNOWN_FLOAT

    def _ecc(self, handle: Any, kind: int) -> float:
        """Return ECC errors since the driver was loaded."""
        volatile = self._driver.library.NVML_VOLATILE_ECC
        return _times(
            self._driver.ask("nvmlDeviceGetTotalEccErrors", kind, volatile, handle=handle)
        )


def _sum_of_errors(links: Sequence[Link]) -> float:
    """Return replays, recoveries and checksum errors over all links; NaN if none is reported."""
    counts = [count for link in links for count in link.errors.values()]
    return float(sum(counts)) if counts else UNKNOWN_FLOAT


def _times(value: float | None, unit: float = 1.0) -> float:
    return UNKNOWN_FLOAT if value is None else float(value) * unit
