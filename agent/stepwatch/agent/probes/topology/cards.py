"""Network cards of a node, and which of them are nearest to a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.records import Nearness

from .pci import Function, nearness, read_function

MAX_CARDS = 64


class Card(NamedTuple):
    """A network card: its InfiniBand or RoCE device (mlx5_0) and its Ethernet interface (ens5),
    each empty where there is none, and where it is."""

    port: str
    interface: str
    function: Function

    @property
    def name(self) -> str:
        """What it is called."""
        return self.port or self.interface


def read_cards(sys: Path) -> list[Card]:
    """The cards that carry collectives, by address: those of InfiniBand, RoCE or EFA, or where
    there is none, the Ethernet cards. NCCL chooses so, too (NCCL_IB_DISABLE=0)."""
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
    """The cards nearest to a device, and how near; none where that is not known.

    Where all of several cards are equally near, which one the device uses is not known: a virtual
    machine often shows all of them below one host bridge.
    """
    ways = [(nearness(device, card.function), card) for card in cards]
    known_ways = [way for way, _ in ways if way is not Nearness.UNKNOWN]
    if not known_ways or len(known_ways) < len(ways):
        return Nearness.UNKNOWN, []
    best = min(known_ways)
    chosen = [card for way, card in ways if way is best]
    return best, [] if 1 < len(chosen) == len(cards) else chosen


def _named(folder: Path) -> Iterator[tuple[Function, str]]:
    """Names of the devices of a class by their functions on the PCI bus."""
    try:
        entries = sorted(folder.iterdir(), reverse=True)  # of one function the first name wins
    except OSError:
        return
    for entry in entries:
        function = read_function(entry / "device")
        if function is not None:
            yield function, entry.name
