"""The `topology` probe: which card, NUMA node and process belong to which device, by PCI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Probe, ProbeContext, RankProcesses
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind, Nearness, text_bytes
from stepwatch.signals.wire import Rows

from .cards import Card, nearest, read_cards
from .memory import Locate, located
from .numa import NumaNodes, read_nodes
from .pci import Function, function_at
from .placement import LIMITS, Placement

AGAIN_SECONDS = 30.0
"""Between two reports of what did not change, as facts are reported again."""
_DTYPE = DTYPES[Kind.TOPOLOGY]


class _Layout(NamedTuple):
    """What the machine is made of, and when it was looked at."""

    at_ns: int
    nodes: NumaNodes
    cards: list[Card]


class _Pair(NamedTuple):
    """A device and one of the cards nearest to it."""

    address: str
    nearness: Nearness
    card: Card


class TopologyProbe(Probe):
    """Reads `/sys` for where devices and cards are, and `/proc` for where the ranks on them run.

    Which process computes on which device the driver's probe reports; `ranks` has it.
    """

    name = "topology"
    kind = Kind.TOPOLOGY
    expendable = False

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
        """Make the probe of this node."""
        return cls(context.clock, context.rank_processes, context.proc, context.sys)

    def supported(self) -> bool:
        """Whether the kernel lists a PCI bus."""
        return (self._sys / "bus" / "pci" / "devices").is_dir()

    def read(self) -> Rows:
        """A row for each device with a rank and each card nearest to it: when one of them changed,
        and every 30 s; none between."""
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
            return np.zeros(0, dtype=_DTYPE)
        self._owners = [users[pair.address] for pair in pairs]
        return _rows(pairs, now)

    def owners(self) -> list[frozenset[int]]:
        """The processes that compute on the device of each row."""
        return self._owners

    def facts(self) -> list[Sighting]:
        """Ranks that are far from their device."""
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
    """The rank processes whose own device each is, by address.

    A process may hold a context on the devices of others: its own is the one that it has alone, or
    the only one it uses. Of a process with several of either none is known to be its own.
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


def _rows(pairs: list[_Pair], now_ns: int) -> Rows:
    rows = np.zeros(len(pairs), dtype=_DTYPE)
    rows["rank"], rows["time_ns"] = UNKNOWN_RANK, now_ns
    for row, (address, way, card) in zip(rows, pairs, strict=True):
        row["address"], row["nearness"] = address.encode(), way
        for name, value in (
            ("port", card.port),
            ("interface", card.interface),
            ("card", card.function.address),
        ):
            row[name] = text_bytes(value, _DTYPE[name].itemsize)
    return rows
