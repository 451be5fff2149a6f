"""How much counters grew in the newest minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

WINDOW_SECONDS = 60.0
"""Growth is counted over so long: limits are per minute."""
_BETWEEN_SECONDS = 1.0


class Grown(NamedTuple):
    """Growth of each counter over the newest `seconds`, at most a little over a minute."""

    by_name: Mapping[str, int]
    seconds: float

    def beyond(self, most: Mapping[str, float]) -> list[str]:
        """Counters that grew by more than `most`, in words."""
        return [
            f"{name}: {self.by_name[name]} in {self.seconds:.0f} s"
            for name, limit in most.items()
            if self.by_name.get(name, 0) > limit
        ]


class Growth:
    """Counters of subjects over the newest minute."""

    def __init__(self) -> None:
        self._readings: dict[str, deque[tuple[float, Mapping[str, int]]]] = {}

    def measure(self, subject: str, counters: Mapping[str, int], now: float) -> Grown:
        """How much the counters of `subject` grew, at `now` in seconds.

        A counter that was not there did not grow. Where one went back (a reset, a driver that was
        loaded anew, 32 bits that are full) all are counted from there on.
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
