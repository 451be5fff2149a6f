"""The `fabric` probe: InfiniBand and RoCE ports, and Ethernet links (including EFA)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import Kind, NodeFact, Values

from .counters import LIMITS
from .error_rates import ErrorRates
from .ports import Port, PortFiles

MAX_PORTS = 64


class FabricProbe(Probe):
    """Read `/sys/class/infiniband`, and hardware cards below `/sys/class/net`."""

    name = "fabric"
    kind = Kind.NODE_FACT
    expendable = False
    every_seconds = 5.0  # limits are per minute

    def __init__(self, clock: Clock, sys: Path = Path("/sys")) -> None:
        self._clock = clock
        self._sys = sys
        self._ports = PortFiles(sys)
        self._were_up: set[str] = set()
        self._downs: dict[str, int] = {}
        self._rates = ErrorRates()
        self._sightings: list[Sighting] = []

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        return cls(context.clock, context.sys)

    def supported(self) -> bool:
        """Return whether the kernel lists network devices."""
        return (self._sys / "class" / "net").is_dir()

    def read(self) -> list[Values]:
        """Return no rows: the results are facts.

        Raises:
            OSError: the ports cannot be listed.
        """
        now = self._clock.monotonic_ns()
        ports = [*self._ports.read_ports(), *self._ports.read_links()][:MAX_PORTS]
        sightings = [sighting for port in ports for sighting in self._of_port(port)]
        sightings += _slower_than_neighbours(ports)
        sightings += self._rates.find(ports, now / NANOSECONDS)
        self._sightings = sightings
        return []

    def facts(self) -> list[Sighting]:
        """Return the newest read's facts."""
        return self._sightings

    def _of_port(self, port: Port) -> Iterator[Sighting]:
        """Yield a port's faults; a port that never was up may be unconnected and is not a fault."""
        if port.is_up:
            self._were_up.add(port.name)
        elif port.name in self._were_up:
            yield Sighting(NodeFact.PORT_DOWN, port.name, f"its state is {port.state}")
        downs, previous = port.downs, self._downs.get(port.name)
        if downs is None:
            return
        self._downs[port.name] = downs
        if previous is not None and downs > previous:
            text = f"it went down {downs - previous} times, {downs} since its counters began"
            yield Sighting(NodeFact.PORT_FLAPS, port.name, text, happened=downs - previous)


def _slower_than_neighbours(ports: list[Port]) -> Iterator[Sighting]:
    """Yield ports that are slower than the fastest port on the same card type."""
    fastest: dict[str, float] = {}
    for port in ports:
        if port.is_up and port.gigabits is not None:
            fastest[port.card] = max(fastest.get(port.card, 0.0), port.gigabits)
    for port in ports:
        most = fastest.get(port.card, 0.0)
        if port.is_up and port.gigabits is not None and 0 < port.gigabits < most:
            text = f"{port.gigabits:g} Gbit/s, others of its kind run at {most:g}"
            yield Sighting(NodeFact.PORT_SLOW, port.name, text)


__all__ = ["LIMITS", "FabricProbe"]
