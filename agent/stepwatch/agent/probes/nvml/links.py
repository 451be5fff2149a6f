"""NVLinks: state, errors and faults per link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stepwatch.agent.devices.limits import MOST
from stepwatch.agent.facts.growth import Growth
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact

from .driver import Driver

_COUNTERS = {
    "nvlink_replays_a_minute": "NVML_NVLINK_ERROR_DL_REPLAY",
    "nvlink_recoveries_a_minute": "NVML_NVLINK_ERROR_DL_RECOVERY",
    "nvlink_crc_flit_errors_a_minute": "NVML_NVLINK_ERROR_DL_CRC_FLIT",
}
"""The driver's counter for each limit. NVLink 5 has none: its errors are XIDs 144 to 150."""
_MOST = {name: MOST[name] for name in _COUNTERS}


class Link(NamedTuple):
    """One NVLink; `errors` counts since the driver was loaded, by limit name."""

    number: int
    up: bool
    errors: Mapping[str, int]

    def name(self, device: str) -> str:
        """Return the link's name as a fact's subject."""
        return f"{device} link {self.number}"


ERRORS_SECONDS = 5.0
"""Seconds between reads of the error counters: three calls per link, and limits are per minute."""
SEARCH_SECONDS = 60.0
"""Seconds between searches for new links."""


class _DeviceLinks:
    """One device's links; another session has another handle."""

    def __init__(self, handle: Any, searched_ns: int, numbers: list[int]) -> None:
        self.handle = handle
        self.searched_ns = searched_ns
        self.numbers = numbers
        self.counted_ns = 0
        self.errors: dict[int, dict[str, int]] = {}

    def is_current(self, handle: Any, now_ns: int) -> bool:
        """Return whether the handle matches and no search is due."""
        young = now_ns - self.searched_ns < SEARCH_SECONDS * NANOSECONDS
        return self.handle is handle and young


class LinkReader:
    """Read each link's state at every read, its errors less often."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._devices: dict[int, _DeviceLinks] = {}

    def read(self, handles: Sequence[Any], now_ns: int) -> list[list[Link]]:
        """Return each device's links; none if the driver reports none or the device is lost."""
        return [self._links_of(number, handle, now_ns) for number, handle in enumerate(handles)]

    def _links_of(self, number: int, handle: Any, now_ns: int) -> list[Link]:
        if handle is None:
            self._devices.pop(number, None)
            return []
        device = self._devices.get(number)
        if device is None or not device.is_current(handle, now_ns):
            device = _DeviceLinks(
                handle, now_ns, list(range(self._driver.library.NVML_NVLINK_MAX_LINKS))
            )
            self._devices[number] = device
        up = {link: self._is_up(handle, link) for link in device.numbers}
        device.numbers = [link for link, state in up.items() if state is not None]
        if not device.counted_ns or now_ns - device.counted_ns >= ERRORS_SECONDS * NANOSECONDS:
            device.counted_ns = now_ns
            device.errors = {link: _errors(self._driver, handle, link) for link in device.numbers}
        return [Link(link, bool(up[link]), device.errors.get(link, {})) for link in device.numbers]

    def _is_up(self, handle: Any, link: int) -> bool | None:
        state = self._driver.ask("nvmlDeviceGetNvLinkState", link, handle=handle)
        return None if state is None else bool(state)


def _errors(driver: Driver, handle: Any, link: int) -> dict[str, int]:
    counters = {}
    for name, counter in _COUNTERS.items():
        kind = getattr(driver.library, counter)
        count = driver.ask("nvmlDeviceGetNvLinkErrorCounter", link, kind, handle=handle)
        if count is not None:
            counters[name] = int(count)
    return counters


class LinkFaults:
    """Remember which links were up, and their error counts."""

    def __init__(self) -> None:
        self._were_up: set[str] = set()
        self._growth = Growth()

    def find(
        self, devices: Sequence[tuple[str, Sequence[Link]]], now: float
    ) -> Iterator[tuple[int, Sighting]]:
        """Yield (device position, fault) from each device's (name, links); `now` is in seconds."""
        for position, (device, links) in enumerate(devices):
            for link in links:
                name = link.name(device)
                why = "" if link.up else self._why_down(name, link.number, position, devices)
                if why:
                    yield position, Sighting(NodeFact.NVLINK_DOWN, name, why)
                beyond = self._growth.measure(name, link.errors, now).beyond(_MOST)
                if beyond:
                    yield position, Sighting(NodeFact.NVLINK_ERRORS, name, ", ".join(beyond))
        self._were_up |= {
            link.name(device) for device, links in devices for link in links if link.up
        }

    def _why_down(
        self, name: str, number: int, position: int, devices: Sequence[tuple[str, Sequence[Link]]]
    ) -> str:
        """Return why a down link should be up; empty if it may be unconnected."""
        if name in self._were_up:
            return "it was up before"
        peers = [
            link.up
            for place, (_, links) in enumerate(devices)
            for link in links
            if place != position and link.number == number
        ]
        if peers and 2 * sum(peers) >= len(peers):
            return f"it is up on {sum(peers)} of the {len(peers)} other devices that have it"
        return ""
