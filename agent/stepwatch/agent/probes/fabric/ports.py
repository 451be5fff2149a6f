"""Ports and links as the kernel lists them below `/sys`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .counters import COUNTERS

_MEGABITS = 1000.0
_UP = re.compile(r"\b(?:ACTIVE|up)\b")
_RATE = re.compile(r"^(\d{1,6}(?:\.\d{1,3})?) Gb/sec")


class Port(NamedTuple):
    """One port. `card` is what its neighbours have in common with it; `downs` how often its link
    went down, None where that is not counted; `errors` are counters by name."""

    name: str
    card: str
    state: str
    gigabits: float | None
    downs: int | None
    errors: Mapping[str, int]

    @property
    def is_up(self) -> bool:
        """Whether it can carry anything."""
        return bool(_UP.search(self.state))


def read_ports(sys: Path) -> Iterator[Port]:
    """Ports of InfiniBand and RoCE cards; none where there is no such card.

    `state` reads `4: ACTIVE`, `rate` reads `400 Gb/sec (4X NDR)`; counters lie in `counters` and
    `hw_counters` (Documentation/ABI/stable/sysfs-class-infiniband of the kernel).
    """
    for device in _folders(sys / "class" / "infiniband"):
        kind = _text(device / "hca_type") or _text(device / "board_id") or "card"
        for folder in _folders(device / "ports"):
            rate = _RATE.match(_text(folder / "rate"))
            places = (folder / "counters", folder / "hw_counters")
            yield Port(
                f"{device.name}/{folder.name}",
                f"{kind}/{_text(folder / 'link_layer')}",
                _text(folder / "state").partition(": ")[2] or "unknown",
                float(rate[1]) if rate else None,
                _number(folder / "counters" / "link_downed"),
                {
                    name: number
                    for place in places
                    for name in COUNTERS
                    if (number := _number(place / name)) is not None
                },
            )


def read_links(sys: Path) -> Iterator[Port]:
    """Ethernet cards that are hardware: bridges, containers' ends and the loopback are not.

    Raises:
        OSError: they cannot be listed.
    """
    for folder in sorted((sys / "class" / "net").iterdir()):
        driver = folder / "device" / "driver"
        if not driver.exists():
            continue
        speed = _number(folder / "speed")
        yield Port(
            folder.name,
            f"ethernet/{driver.resolve().name}",
            _text(folder / "operstate") or "unknown",
            speed / _MEGABITS if speed is not None and speed > 0 else None,
            _number(folder / "carrier_down_count"),
            {},
        )


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(place.iterdir())
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdecimal() and len(text) < 21 else None
