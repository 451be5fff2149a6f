"""Counter growth over the newest minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

WINDOW_SECONDS = 60.0
"""The window in seconds: limits are per minute."""
_BETWEEN_SECONDS = 1.0


class Grown(NamedTuple):
    """Each counter's growth over the newest `seconds`, slightly more than a minute at most."""

    by_name: Mapping[str, int]
    seconds: float

    def beyond(self, most: Mapping[str, float]) -> list[str]:
        """Describe the counters that grew by more than `most`."""
        return [
            f"{name}: {self.by_name[name]} in {self.seconds:.0f} s"
            for name, limit in most.items()
            if self.by_name.get(name, 0) > limit
        ]


class Growth:
    """Counters by subject over the newest minute."""

    def __init__(self) -> None:
        self._readings: dict[str, deque[tuple[float, Mapping[str, int]]]] = {}

    def measure(self, subject: str, counters: Mapping[str, int], now: float) -> Grown:
        """Record the counters and return their growth; `now` is in seconds.

        A new counter did not grow. If a counter went back (a reset, a driver reload, a 32-bit
        overflow), all counters start again from there.
        """
        readings = self._readings.setdefault(subject, deque())
        if readings and any(
            counters.get(name, 0) < count for name, count in readings[-1][1].items()
        ):
            readings.clear()
        while len(readings) > 1 and now - readings[1][0] >= WINDOW_SECONDS:
            readings.popleft()
        if not readings or now - readings[-1][0] >= _BETWEEN_SECONDS:
            readings.append((now, counters))
        begun, first = readings[0]
        grown = {name: max(0, count - first.get(name, count)) for name, count in counters.items()}
        return Grown(grown, now - begun)
