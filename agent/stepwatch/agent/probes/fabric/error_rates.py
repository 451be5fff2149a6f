"""Ports with more errors than a healthy port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepwatch.agent.facts.growth import Growth
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.records import NodeFact

from .counters import LIMITS
from .ports import Port

_MOST = {name: limit.a_minute for name, limit in LIMITS.items()}


class ErrorRates:
    """Port errors over the newest minute."""

    def __init__(self) -> None:
        self._growth = Growth()

    def find(self, ports: Iterable[Port], now: float) -> Iterator[Sighting]:
        """Yield ports whose errors exceed a limit; `now` is in seconds."""
        for port in ports:
            beyond = self._growth.measure(port.name, port.errors, now).beyond(_MOST)
            if beyond:
                yield Sighting(NodeFact.PORT_ERRORS, port.name, ", ".join(beyond))
