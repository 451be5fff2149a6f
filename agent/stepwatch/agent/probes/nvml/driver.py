"""The NVIDIA driver through `pynvml`: its devices, XID events and availability."""

from __future__ import annotations

import ctypes
import time
from _ctypes import dlclose
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

MAX_DEVICES = 64
MAX_EVENTS = 64
"""Maximum number of events per read: a device that repeats its error must not block the agent."""


SEARCH_SECONDS = 10.0
"""Seconds between searches for a driver's library on a node without one."""


def is_installed() -> bool:
    """Return whether the driver's library can be loaded; it is not kept."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    dlclose(library._handle)
    return True


class Xid(NamedTuple):
    """A device's XID errors since the agent's start: the newest number and the count."""

    newest: int = 0
    total: int = 0


class Driver:
    """A session with the driver, opened on demand and again after a reload.

    `library` is the pynvml module, by default imported when a driver is installed. Only an instance
    with `listens` receives XID events.
    """

    def __init__(self, library: ModuleType | None = None, listens: bool = True) -> None:
        self.library: Any = library
        self._searched_s = -SEARCH_SECONDS
        self._listens = listens
        self.xids: dict[int, Xid] = {}
        self.listening: set[int] = set()
        """Devices that report XID errors as events."""
        self.fresh: list[tuple[int, int]] = []
        """(device, XID number) for each error in the newest `collect_events` call."""
        self._handles: list[Any] | None = None
        self._events: Any = None
        self._addresses: dict[int, str] = {}
        self._fixed: dict[tuple[Any, ...], Any] = {}
        self.before_close: Callable[[], None] = lambda: None
        """Called before a session ends, to release objects that belong to it."""

    def devices(self) -> list[Any] | None:
        """Return device handles, None for a lost device; None without a driver that answers.

        Handles end with their driver: after a reload there is a new session.
        """
        if self.library is None and not self._found():
            return None
        if self._handles is not None and self._is_current(self._handles):
            return self._handles
        self.close()
        return self._open()

    def _found(self) -> bool:
        """Look for a driver, periodically; pynvml takes 2 MiB and is useless without one."""
        now_s = time.monotonic()
        if now_s - self._searched_s >= SEARCH_SECONDS:
            self._searched_s = now_s
            self.library = _pynvml() if is_installed() else None
        return self.library is not None

    def ask(self, name: str, *words: Any, handle: Any = None) -> Any:
        """Return the driver's answer; None if there is none."""
        call: Callable[..., Any] = getattr(self.library, name)
        try:
            return call(*words) if handle is None else call(handle, *words)
        except self.library.NVMLError:
            return None

    def ask_once(self, name: str, *words: Any, handle: Any) -> Any:
        """Like `ask`, for constant device properties: the first answer is cached per session."""
        key = (name, *words, id(handle))  # handles live as long as the session
        answer = self._fixed.get(key)
        if answer is None:
            answer = self._fixed[key] = self.ask(name, *words, handle=handle)
        return answer

    def field(self, name: str, handle: Any) -> int | None:
        """Return a device field by its name in `nvml.h`; None if the driver has none."""
        number = getattr(self.library, name, None)
        values = None if number is None else self.ask("nvmlDeviceGetFieldValues", handle, [number])
        if values is None or values[0].nvmlReturn:
            return None
        return int(values[0].value.uiVal)

    def address(self, number: int, handle: Any) -> str:
        """Return a device's PCI address as kernel messages write it: 0000:3b:00.

        A lost device keeps its address; empty if none was ever reported.
        """
        info = None if handle is None else self.ask_once("nvmlDeviceGetPciInfo", handle=handle)
        if info is not None:
            # The kernel writes 00000000:3B:00.0 as 0000:3b:00.
            domain, bus, device = info.domain & 0xFFFF, info.bus & 0xFF, info.device & 0xFF
            self._addresses[number] = f"{domain:04x}:{bus:02x}:{device:02x}"
        return self._addresses.get(number, "")

    def collect_events(self) -> None:
        """Count the XID errors since the last call."""
        self.fresh = []
        if self._events is None:
            return
        numbers = {_address(handle): number for number, handle in enumerate(self._handles or ())}
        for _ in range(MAX_EVENTS):
            try:
                event = self.library.nvmlEventSetWait_v2(self._events, 0)
            except self.library.NVMLError:  # a timeout: no further event
                return
            number = numbers.get(_address(event.device))
            if number is not None:
                previous = self.xids.get(number, Xid())
                self.xids[number] = Xid(int(event.eventData), previous.total + 1)
                self.fresh.append((number, int(event.eventData)))

    def close(self) -> None:
        """End the session."""
        if self._handles is not None:
            self.before_close()
            if self._events is not None:
                self.ask("nvmlEventSetFree", self._events)
            self._handles, self._events = None, None
            self._fixed.clear()
            self.listening.clear()
            self.ask("nvmlShutdown")

    def _open(self) -> list[Any] | None:
        try:
            self.library.nvmlInit()
        except self.library.NVMLError:
            return None
        count = min(int(self.ask("nvmlDeviceGetCount") or 0), MAX_DEVICES)
        self._handles = [self.ask("nvmlDeviceGetHandleByIndex", number) for number in range(count)]
        self._listen(self._handles)
        return self._handles

    def _is_current(self, handles: list[Any]) -> bool:
        """Return whether the driver knows the handles and has no further device.

        If there are fewer devices than handles, some fell off the bus: their handles report it.
        """
        count = self.ask("nvmlDeviceGetCount")
        return count is not None and min(int(count), MAX_DEVICES) <= len(handles)

    def _listen(self, handles: list[Any]) -> None:
        """Subscribe to each device's XID events; without event support they stay unknown."""
        self._events = self.ask("nvmlEventSetCreate") if self._listens else None
        if self._events is None:
            return
        kinds = self.library.nvmlEventTypeXidCriticalError
        for number, handle in enumerate(handles):
            try:
                self.library.nvmlDeviceRegisterEvents(handle, kinds, self._events)
            except self.library.NVMLError:
                continue
            self.listening.add(number)


def _address(handle: Any) -> int:
    """Return a handle's identity: the address it points to."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0 if handle is not None else 0


def _pynvml() -> ModuleType | None:
    """Return the module if it is installed; importing it loads no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    module: ModuleType = pynvml
    return module
