"""The `nvml` probe: what the NVIDIA driver says of each device, through `pynvml`.

A value that the driver does not tell is unknown; a device that does not answer is lost.
XID errors arrive as events and are collected at each read.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from stepwatch.agent.probes import Rows
from stepwatch.signals.clock import Clock
from stepwatch.signals.records import DTYPES, UNKNOWN_FLOAT, UNKNOWN_RANK, Kind

MAX_DEVICES = 64
MAX_EVENTS = 64
"""Events taken at one read: a device that repeats its error must not hold the agent."""
MEGAHERTZ, MILLIWATT = 1e6, 1e-3
_NVLINKS = 18
"""Links of a Hopper device, the most of any (NVML_NVLINK_MAX_LINKS)."""


_FIELDS = DTYPES[Kind.DEVICE]
_LOST: dict[str, float] = {
    **{name: UNKNOWN_FLOAT for name in _FIELDS.names or () if _FIELDS[name].kind == "f"},
    "lost": 1,
    "throttle": -1,
    "xid": -1,
}
"""What is known of a device that the driver counts and does not hand out."""


class Xid(NamedTuple):
    """XID errors of one device since the agent began."""

    newest: int = 0
    seen: int = 0


class NvmlProbe:
    """Reads all devices of this node; `library` is the pynvml module, None where there is none."""

    name = "nvml"
    kind = Kind.DEVICE

    def __init__(self, clock: Clock, library: ModuleType | None = None) -> None:
        self._clock = clock
        self._nvml: Any = library or _pynvml()
        self._handles: list[Any] | None = None
        self._events: Any = None
        self._xids: dict[int, Xid] = {}
        self._listening: set[int] = set()

    def supported(self) -> bool:
        """Whether there is a driver, with a device."""
        return self._nvml is not None and bool(self._open())

    def read(self) -> Rows:
        """One row per device.

        Raises:
            OSError: the driver does not answer.
        """
        handles = self._open()
        if handles is None:
            raise OSError("the NVIDIA driver does not answer")
        self._take_events(handles)
        rows = np.zeros(len(handles), dtype=DTYPES[Kind.DEVICE])
        for number, (row, handle) in enumerate(zip(rows, handles, strict=True)):
            row["rank"], row["device"] = UNKNOWN_RANK, number
            row["time_ns"] = self._clock.monotonic_ns()
            for name, value in self._values(number, handle).items():
                row[name] = value
        return rows

    def owners(self) -> dict[int, set[int]]:
        """Processes that compute on each device, by the ids that the driver sees."""
        found = {}
        for number, handle in enumerate(self._open() or ()):
            processes = self._ask("nvmlDeviceGetComputeRunningProcesses", handle) or ()
            found[number] = {int(process.pid) for process in processes}
        return found

    def close(self) -> None:
        """Let go of the driver."""
        if self._handles is not None:
            if self._events is not None:
                self._ask("nvmlEventSetFree", self._events)
            self._handles, self._events = None, None
            self._listening.clear()
            self._ask("nvmlShutdown")

    def _open(self) -> list[Any] | None:
        """Handles of the devices; None while the driver cannot be loaded.

        Handles die with the driver that gave them out: one that was reloaded is opened again.
        """
        if self._handles is not None and self._is_current(self._handles):
            return self._handles
        self.close()
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError:
            return None
        count = min(int(self._ask("nvmlDeviceGetCount") or 0), MAX_DEVICES)
        handles = [self._ask("nvmlDeviceGetHandleByIndex", number) for number in range(count)]
        self._handles = handles
        self._listen(handles)
        return handles

    def _is_current(self, handles: list[Any]) -> bool:
        """Whether the driver still knows the handles, and has no device beyond them.

        Fewer devices than handles are devices that fell off the bus: their handles tell that.
        """
        count = self._ask("nvmlDeviceGetCount")
        return count is not None and min(int(count), MAX_DEVICES) <= len(handles)

    def _listen(self, handles: list[Any]) -> None:
        """Ask for XID events of each device; a driver without events leaves them unknown."""
        self._events = self._ask("nvmlEventSetCreate")
        if self._events is None:
            return
        kinds = self._nvml.nvmlEventTypeXidCriticalError
        for number, handle in enumerate(handles):
            try:
                self._nvml.nvmlDeviceRegisterEvents(handle, kinds, self._events)
            except self._nvml.NVMLError:
                continue
            self._listening.add(number)

    def _take_events(self, handles: list[Any]) -> None:
        if self._events is None:
            return
        numbers = {_address(handle): number for number, handle in enumerate(handles)}
        for _ in range(MAX_EVENTS):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:  # a timeout: there is no further event
                return
            number = numbers.get(_address(event.device))
            if number is not None:
                known = self._xids.get(number, Xid())
                self._xids[number] = Xid(int(event.eventData), known.seen + 1)

    def _values(self, number: int, handle: Any) -> dict[str, float]:
        if handle is None:
            return _LOST
        nvml, ask = self._nvml, functools.partial(self._ask, handle=handle)
        lost = self._is_lost(handle)
        use, memory = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetMemoryInfo")
        xid = self._xids.get(number, Xid())
        throttle = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        listening = number in self._listening
        return {
            "lost": lost,
            "throttle": -1 if throttle is None else throttle,
            "xid": min(xid.newest, 2**31 - 1) if listening else -1,
            "xid_count": xid.seen if listening else UNKNOWN_FLOAT,
            "busy_ratio": UNKNOWN_FLOAT if use is None else use.gpu / 100.0,
            "memory_used_bytes": UNKNOWN_FLOAT if memory is None else memory.used,
            "memory_total_bytes": UNKNOWN_FLOAT if memory is None else memory.total,
            "clock_hertz": _times(ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), MEGAHERTZ),
            "clock_limit_hertz": _times(
                ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM), MEGAHERTZ
            ),
            "power_watts": _times(ask("nvmlDeviceGetPowerUsage"), MILLIWATT),
            "power_limit_watts": _times(ask("nvmlDeviceGetEnforcedPowerLimit"), MILLIWATT),
            "temperature_celsius": _times(
                ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
            ),
            "ecc_corrected": self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            "ecc_uncorrected": self._ecc(handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            "pcie_replays": _times(ask("nvmlDeviceGetPcieReplayCounter")),
            "nvlink_errors": self._nvlink_errors(handle),
        }

    def _is_lost(self, handle: Any) -> int:
        """1 lost, 0 there, -1 if the driver says neither."""
        try:
            self._nvml.nvmlDeviceGetTemperature(handle, self._nvml.NVML_TEMPERATURE_GPU)
        except self._nvml.NVMLError as error:
            return 1 if error.value == self._nvml.NVML_ERROR_GPU_IS_LOST else -1
        return 0

    def _ecc(self, handle: Any, kind: int) -> float:
        """Errors since the driver was loaded."""
        volatile = self._nvml.NVML_VOLATILE_ECC
        return _times(self._ask("nvmlDeviceGetTotalEccErrors", kind, volatile, handle=handle))

    def _nvlink_errors(self, handle: Any) -> float:
        """Replays, recoveries and checksum errors of all links; NaN where there is none."""
        kinds = (
            self._nvml.NVML_NVLINK_ERROR_DL_REPLAY,
            self._nvml.NVML_NVLINK_ERROR_DL_RECOVERY,
            self._nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
        )
        total = math.nan
        for link in range(_NVLINKS):
            for kind in kinds:
                count = self._ask("nvmlDeviceGetNvLinkErrorCounter", link, kind, handle=handle)
                if count is None:
                    return total
                total = float(count) + (0.0 if math.isnan(total) else total)
        return total

    def _ask(self, name: str, *words: Any, handle: Any = None) -> Any:
        """The driver's answer; None where it has none."""
        call: Callable[..., Any] = getattr(self._nvml, name)
        try:
            return call(*words) if handle is None else call(handle, *words)
        except self._nvml.NVMLError:
            return None


def assigned(rows: Rows, owners: Mapping[int, set[int]], ranks: Mapping[int, int]) -> Rows:
    """`rows` with the rank that computes on each device; `ranks` is rank by process id.

    A device that several ranks share, or none, belongs to the node.
    """
    rows = rows.copy()
    for row in rows:
        mine = {ranks[pid] for pid in owners.get(int(row["device"]), ()) if pid in ranks}
        if len(mine) == 1:
            row["rank"] = mine.pop()
    return rows


def _times(value: float | None, unit: float = 1.0) -> float:
    return UNKNOWN_FLOAT if value is None else float(value) * unit


def _address(handle: Any) -> int:
    """What tells two handles of the driver apart: the address they point to."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0 if handle is not None else 0


def _pynvml() -> ModuleType | None:
    """The module, if it is installed; importing it loads no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    module: ModuleType = pynvml
    return module
