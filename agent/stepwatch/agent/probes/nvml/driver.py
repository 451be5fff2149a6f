"""The NVIDIA driver through `pynvml`: its devices, its XID events, and whether it answers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

MAX_DEVICES = 64
MAX_EVENTS = 64
"""Events read at once: a device that repeats its error must not hold up the agent."""


class Xid(NamedTuple):
    """XID errors of one device since the agent began."""

    newest: int = 0
    total: int = 0


class Driver:
    """A session with the driver, opened when needed and again after a reload.

    `library` is the pynvml module; None where it is not installed. Only who `listens` gets the
    events of XID errors.
    """

    def __init__(self, library: ModuleType | None = None, listens: bool = True) -> None:
        self.library: Any = library or _pynvml()
        self._listens = listens
        self.xids: dict[int, Xid] = {}
        self.listening: set[int] = set()
        """Devices that report XID errors as events."""
        self.fresh: list[tuple[int, int]] = []
        """Device and number of each XID error that the newest call of `collect_events` brought."""
        self._handles: list[Any] | None = None
        self._events: Any = None
        self._addresses: dict[int, str] = {}
        self._fixed: dict[tuple[Any, ...], Any] = {}
        self.before_close: Callable[[], None] = lambda: None
        """Called before a session ends: what belongs to it must be released first."""

    def devices(self) -> list[Any] | None:
        """Handles of the devices, None of one that is lost; None while no driver answers.

        Handles die with the driver that gave them out: after a reload the session is a new one.
        """
        if self.library is None:
            return None
        if self._handles is not None and self._is_current(self._handles):
            return self._handles
        self.close()
        return self._open()

    def ask(self, name: str, *words: Any, handle: Any = None) -> Any:
        """The driver's answer; None where it has none."""
        call: Callable[..., Any] = getattr(self.library, name)
        try:
            return call(*words) if handle is None else call(handle, *words)
        except self.library.NVMLError:
            return None

    def ask_once(self, name: str, *words: Any, handle: Any) -> Any:
        """Like `ask`, for what a device is made with: asked until there is an answer, once a
        session."""
        key = (name, *words, id(handle))  # handles live as long as the session
        answer = self._fixed.get(key)
        if answer is None:
            answer = self._fixed[key] = self.ask(name, *words, handle=handle)
        return answer

    def field(self, name: str, handle: Any) -> int | None:
        """A field of a device by its name in `nvml.h`; None where the driver has none."""
        number = getattr(self.library, name, None)
        values = None if number is None else self.ask("nvmlDeviceGetFieldValues", handle, [number])
        if values is None or values[0].nvmlReturn:
            return None
        return int(values[0].value.uiVal)

    def address(self, number: int, handle: Any) -> str:
        """Where a device is on the PCI bus, as the kernel's messages write it: 0000:3b:00.

        A device that is lost has the address that it had; empty where none was ever reported.
        """
        info = None if handle is None else self.ask_once("nvmlDeviceGetPciInfo", handle=handle)
        if info is not None:
            # 00000000:3B:00.0 is 0000:3b:00 to the kernel.
            domain, bus, device = info.domain & 0xFFFF, info.bus & 0xFF, info.device & 0xFF
            self._addresses[number] = f"{domain:04x}:{bus:02x}:{device:02x}"
        return self._addresses.get(number, "")

    def collect_events(self) -> None:
        """Count the XID errors that came since the last call."""
        self.fresh = []
        if self._events is None:
            return
        numbers = {_address(handle): number for number, handle in enumerate(self._handles or ())}
        for _ in range(MAX_EVENTS):
            try:
                event = self.library.nvmlEventSetWait_v2(self._events, 0)
            except self.library.NVMLError:  # a timeout: there is no further event
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
        """Whether the driver still knows the handles, and has no device beyond them.

        Fewer devices than handles are devices that fell off the bus: their handles say so.
        """
        count = self.ask("nvmlDeviceGetCount")
        return count is not None and min(int(count), MAX_DEVICES) <= len(handles)

    def _listen(self, handles: list[Any]) -> None:
        """Ask for XID events of each device; a driver without events leaves them unknown."""
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
    """What identifies a handle of the driver: the address it points to."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0 if handle is not None else 0


def _pynvml() -> ModuleType | None:
    """The module, if it is installed; importing it loads no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    module: ModuleType = pynvml
    return module
