"""The node's network cards, and the nearest ones for a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.records import Nearness

from .pci import Function, nearness, read_function

MAX_CARDS = 64


class Card(NamedTuple):
    """A network card.

    `port` is its InfiniBand or RoCE device (mlx5_0), `interface` its Ethernet interface (ens5);
    each is empty if there is none. `function` is its PCI function.
    """

    port: str
    interface: str
    function: Function

    @property
    def name(self) -> str:
        """The card's name."""
        return self.port or self.interface


def read_cards(sys: Path) -> list[Card]:
    """Return the cards that carry collectives, sorted by address.

    These are InfiniBand, RoCE or EFA cards, else Ethernet cards. NCCL chooses the same way
    (NCCL_IB_DISABLE=0).
    """
    ports = dict(_named(sys / "class" / "infiniband"))
    links = dict(_named(sys / "class" / "net"))
    cards = [
        Card(
            ports.get(function, ""),
            links.get(function, ""),
            function,
        )
        for function in sorted(ports or links)
    ]
    return cards[:MAX_CARDS]


def nearest(device: Function, cards: Sequence[Card]) -> tuple[Nearness, list[Card]]:
    """Return the distance and the cards nearest to a device; none if unknown.

    If all cards are equally near, the device's card is unknown: a virtual machine often shows all
    cards below one host bridge.
    """
    ways = [(nearness(device, card.function), card) for card in cards]
    known_ways = [way for way, _ in ways if way is not Nearness.UNKNOWN]
    if not known_ways or len(known_ways) < len(ways):
        return Nearness.UNKNOWN, []
    best = min(known_ways)
    chosen = [card for way, card in ways if way is best]
    return best, [] if 1 < len(chosen) == len(cards) else chosen


def _named(folder: Path) -> Iterator[tuple[Function, str]]:
    """Yield a class's devices by PCI function and name."""
    try:
        entries = sorted(folder.iterdir(), reverse=True)  # for one function the first name wins
    except OSError:
        return
    for entry in entries:
        function = read_function(entry / "device")
        if function is not None:
            yield function, entry.name
