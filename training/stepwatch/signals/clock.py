"""A node's two clocks and the pair that joins them.

Durations and ages are read from the monotonic clock, which all processes on one Linux node share
and which never jumps. Wall time is computed from it through a `ClockPair` that a segment's writer
reads, so that a wall-clock step moves no earlier measurement.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

MAX_DURATION_NS = 30 * 86_400 * 1_000_000_000
"""No measured duration lasts a month; above this, a counter ran below zero."""
NANOSECONDS = 1_000_000_000


class Clock(Protocol):
    """Reads both clocks; passed as an argument so that tests can set the time."""

    def monotonic_ns(self) -> int:
        """Nanoseconds on the node's monotonic clock."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        ...


class SystemClock:
    """The node's own clocks (CLOCK_MONOTONIC and CLOCK_REALTIME)."""

    def monotonic_ns(self) -> int:
        """Nanoseconds on the node's monotonic clock."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return time.time_ns()


class ClockPair(NamedTuple):
    """One moment read on both clocks, in nanoseconds."""

    monotonic_ns: int
    wall_ns: int

    @classmethod
    def now(cls, clock: Clock) -> ClockPair:
        """Read both clocks; the pair is off by the time between two calls, under a microsecond."""
        return cls(clock.monotonic_ns(), clock.wall_ns())

    def to_wall_ns(self, monotonic_ns: int) -> int:
        """Return the wall time, in nanoseconds, for a moment on the monotonic clock."""
        return self.wall_ns + (monotonic_ns - self.monotonic_ns)
