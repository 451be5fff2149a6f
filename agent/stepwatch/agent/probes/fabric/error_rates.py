"""Ports with more errors than a healthy one has."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.records import NodeFact

from .counters import LIMITS
from .ports import Port

WINDOW_SECONDS = 60.0
"""Errors are counted over so long: limits are per minute."""


class ErrorRates:
    """Errors of each port in the newest minute."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, Mapping[str, int]]]] = {}

    def find(self, ports: Iterable[Port], now: float) -> list[Sighting]:
        """Ports with more errors than their limits, at `now` in seconds."""
        return [sighting for port in ports if (sighting := self._of(port, now)) is not None]

    def _of(self, port: Port, now: float) -> Sighting | None:
        seen = self._seen.setdefault(port.name, deque())
        while len(seen) > 1 and now - seen[1][0] >= WINDOW_SECONDS:
            seen.popleft()
        if not seen or now - seen[-1][0] >= 1.0:
            seen.append((now, port.errors))
        _, first = seen[0]
        beyond = [
            f"{name}: {grown} in {now - seen[0][0]:.0f} s"
            for name, limit in LIMITS.items()
            if (grown := _grown(first.get(name), port.errors.get(name))) > limit.a_minute
        ]
        return Sighting(NodeFact.PORT_ERRORS, port.name, ", ".join(beyond)) if beyond else None


def _grown(before: int | None, now: int | None) -> int:
    """Growth of a counter; one that is not there or went back (a reset) did not grow."""
    return max(0, now - before) if before is not None and now is not None else 0
