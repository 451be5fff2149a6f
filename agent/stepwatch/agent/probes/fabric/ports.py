"""Ports and links as listed below `/sys`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.kernel_files import KernelFiles

from .counters import COUNTERS

_MEGABITS = 1000.0
_ERRORS = frozenset(COUNTERS)
_UP = re.compile(r"\b(?:ACTIVE|up)\b")
_RATE = re.compile(r"^(\d{1,6}(?:\.\d{1,3})?) Gb/sec")


class Port(NamedTuple):
    """One port.

    `card` is the card type that similar ports share. `downs` counts link losses, None if unknown.
    `errors` are counters by name.
    """

    name: str
    card: str
    state: str
    gigabits: float | None
    downs: int | None
    errors: Mapping[str, int]

    @property
    def is_up(self) -> bool:
        """Whether it can carry traffic."""
        return bool(_UP.search(self.state))


class PortFiles:
    """Read the ports below `sys`; their files stay open between reads."""

    def __init__(self, sys: Path) -> None:
        self._cards, self._links = f"{sys}/class/infiniband", f"{sys}/class/net"
        self._files = KernelFiles()
        self._drivers: dict[str, str] = {}

    def read_ports(self) -> Iterator[Port]:
        """Yield InfiniBand and RoCE ports; none without such a card.

        `state` reads `4: ACTIVE`, `rate` reads `400 Gb/sec (4X NDR)`. The counter folders are
        `counters` and `hw_counters` (Documentation/ABI/stable/sysfs-class-infiniband in the
        kernel).
        """
        word = self._files.word_or
        for device in _names(self._cards):
            card = f"{self._cards}/{device}"
            kind = word(f"{card}/hca_type") or word(f"{card}/board_id") or "card"
            for number in _names(f"{card}/ports"):
                folder = f"{card}/ports/{number}"
                rate = _RATE.match(word(f"{folder}/rate"))
                yield Port(
                    f"{device}/{number}",
                    f"{kind}/{word(f'{folder}/link_layer')}",
                    word(f"{folder}/state").partition(": ")[2] or "unknown",
                    float(rate[1]) if rate else None,
                    self._files.number(f"{folder}/counters/link_downed"),
                    self._errors(folder),
                )

    def read_links(self) -> Iterator[Port]:
        """Yield hardware Ethernet cards, without bridges, container interfaces and loopback.

        Raises:
            OSError: the interfaces cannot be listed.
        """
        names = sorted(os.listdir(self._links))
        self._drivers = {name: driver for name, driver in self._drivers.items() if name in names}
        for name in names:
            folder = f"{self._links}/{name}"
            driver = self._driver(name, folder)
            if not driver:
                continue
            speed = self._files.number(f"{folder}/speed")
            yield Port(
                name,
                f"ethernet/{driver}",
                self._files.word_or(f"{folder}/operstate") or "unknown",
                speed / _MEGABITS if speed is not None and speed > 0 else None,
                self._files.number(f"{folder}/carrier_down_count"),
                {},
            )

    def _errors(self, folder: str) -> dict[str, int]:
        """Return the port's counters: listing the folder costs less than a lookup for each."""
        counters = {}
        for place in (f"{folder}/counters", f"{folder}/hw_counters"):
            for name in _ERRORS.intersection(_names(place)):
                number = self._files.number(f"{place}/{name}")
                if number is not None:
                    counters[name] = number
        return counters

    def _driver(self, name: str, folder: str) -> str:
        """Return a card's driver, which never changes; empty for a software interface."""
        if name not in self._drivers:
            try:
                place = os.readlink(f"{folder}/device/driver")
            except OSError:
                return ""
            self._drivers[name] = os.path.basename(place)
        return self._drivers[name]


def _names(place: str) -> list[str]:
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []
