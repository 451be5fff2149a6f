"""A clock that tests set."""

from __future__ import annotations

from stepwatch.signals.clock import SystemClock


class HandClock(SystemClock):
    """Monotonic nanoseconds are `now`."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000

    def monotonic_ns(self) -> int:
        """What the test set."""
        return self.now
