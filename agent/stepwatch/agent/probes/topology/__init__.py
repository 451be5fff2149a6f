"""The `topology` probe: each device's card, NUMA node and process, by PCI address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Probe, ProbeContext, RankProcesses
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import Kind, Nearness, Values, unknown_values

from .cards import Card, nearest, read_cards
from .memory import Locate, located
from .numa import NumaNodes, read_nodes
from .pci import Function, function_at
from .placement import LIMITS, Placement

AGAIN_SECONDS = 30.0
"""Seconds between reports without a change, as for facts."""


class _Layout(NamedTuple):
    """The node's hardware, and the time it was read."""

    at_ns: int
    nodes: NumaNodes
    cards: list[Card]


class _Pair(NamedTuple):
    """A device and one of its nearest cards."""

    address: str
    nearness: Nearness
    card: Card


class TopologyProbe(Probe):
    """Read device and card locations in `/sys`, and the ranks' locations in `/proc`.

    The driver's probe reports which process computes on which device; `ranks` has the result.
    """

    name = "topology"
    kind = Kind.TOPOLOGY
    expendable = False
    every_seconds = 5.0  # a rank stays with its device

    def __init__(
        self,
        clock: Clock,
        ranks: RankProcesses,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        locate: Locate = located,
    ) -> None:
        self._clock = clock
        self._ranks = ranks
        self._sys = sys
        self._placement = Placement(proc, locate)
        self._layout: _Layout | None = None
        self._owners: list[frozenset[int]] = []
        self._reported: tuple[int, object] = (0, None)
        self._sightings: list[Sighting] = []

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        return cls(context.clock, context.rank_processes, context.proc, context.sys)

    def supported(self) -> bool:
        """Return whether the kernel lists a PCI bus."""
        return (self._sys / "bus" / "pci" / "devices").is_dir()

    def read(self) -> list[Values]:
        """Return one row per device with a rank and nearest card.

        Rows are returned after a change and every 30 s; otherwise there are none.
        """
        now = self._clock.monotonic_ns()
        layout = self._look(now)
        users = users_of(self._ranks.devices, self._ranks.pids)
        functions = {
            address: function
            for address in sorted(users)
            if (function := function_at(self._sys, address)) is not None
        }
        self._sightings = list(self._misplaced(functions, users, layout.nodes, now))
        self._placement.forget(self._ranks.pids)
        pairs = [
            _Pair(address, way, card)
            for address, function in functions.items()
            for way, chosen in [nearest(function, layout.cards)]
            for card in chosen
        ]
        if not self._is_due([(pair, users[pair.address]) for pair in pairs], now):
            self._owners = []
            return []
        self._owners = [users[pair.address] for pair in pairs]
        return _rows(pairs, now)

    def owners(self) -> list[frozenset[int]]:
        """Return, for each row, the processes that compute on its device."""
        return self._owners

    def facts(self) -> list[Sighting]:
        """Return ranks that are far from their device."""
        return self._sightings

    def _look(self, now_ns: int) -> _Layout:
        layout = self._layout
        if layout is None or now_ns - layout.at_ns >= LIMITS.layout_seconds * NANOSECONDS:
            layout = _Layout(now_ns, read_nodes(self._sys), read_cards(self._sys))
            self._layout = layout
        return layout

    def _misplaced(
        self,
        functions: Mapping[str, Function],
        users: Mapping[str, frozenset[int]],
        nodes: NumaNodes,
        now_ns: int,
    ) -> Iterator[Sighting]:
        for address, function in functions.items():
            for pid in sorted(users[address]):
                yield from self._placement.find(pid, function, nodes, now_ns)

    def _is_due(self, report: object, now_ns: int) -> bool:
        reported_ns, previous = self._reported
        if report == previous and now_ns - reported_ns < AGAIN_SECONDS * NANOSECONDS:
            return False
        self._reported = now_ns, report
        return True


def users_of(
    devices: Mapping[int, tuple[str, ...]], pids: frozenset[int]
) -> dict[str, frozenset[int]]:
    """Return each device's rank processes, by address.

    A process may hold a context on other ranks' devices. Its own device is its only exclusive one,
    else the only one it uses. If it has several, none is known to be its own.
    """
    using = {pid: devices[pid] for pid in pids if pid in devices}
    exclusive = {
        pid: [address for address in addresses if _count(address, using) == 1]
        for pid, addresses in using.items()
    }
    ranks_by_device: dict[str, set[int]] = {}
    for pid, addresses in using.items():
        chosen = exclusive[pid] or list(addresses)
        if len(chosen) == 1:
            ranks_by_device.setdefault(chosen[0], set()).add(pid)
    return {address: frozenset(users) for address, users in ranks_by_device.items()}


def _count(address: str, using: Mapping[int, tuple[str, ...]]) -> int:
    return sum(address in addresses for addresses in using.values())


def _rows(pairs: list[_Pair], now_ns: int) -> list[Values]:
    return [
        unknown_values(
            Kind.TOPOLOGY,
            time_ns=now_ns,
            address=address.encode(),
            nearness=way,
            port=card.port.encode(),
            interface=card.interface.encode(),
            card=card.function.address.encode(),
        )
        for address, way, card in pairs
    ]
