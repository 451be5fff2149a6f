"""The offset between the device's clock and the host's.

An event is enqueued at `h` on the host's clock, passed at `p` on the device's, and seen passed at
`q`. Hence `h <= p + offset <= q`, and each event bounds the offset on both sides:

    enqueued at 100, passed at 7:  offset >= 93
    enqueued at 150, passed at 60: offset >= 90    (enqueued 3 ahead of its turn)
    the first was seen at 104:     offset <= 97    so it is 93, and at most 4 more
"""

from __future__ import annotations

DRIFT = 1e-4
"""Largest difference between the clock rates: a quartz is good to 5e-5, and there are two."""


class Anchor:
    """Bounds for `host - device`, in ns; each clock counts ns from its own origin."""

    def __init__(self) -> None:
        self._lower: int | None = None
        self._upper: int | None = None
        self._moved = 0

    @property
    def offset(self) -> int:
        """The least offset; a device is never shown later than it is. 0 before any event."""
        return self._lower or 0

    @property
    def error(self) -> int | None:
        """The amount by which the true offset may be larger, in ns; None if unknown."""
        if self._lower is None or self._upper is None:
            return None
        return self._upper - self._lower

    def move_to(self, host_ns: int) -> None:
        """Widen the bounds by the clocks' possible drift since the last call."""
        allowance = int(max(host_ns - self._moved, 0) * DRIFT)
        self._moved = max(host_ns, self._moved)
        if self._lower is not None:
            self._lower -= allowance
        if self._upper is not None:
            self._upper += allowance

    def enqueued(self, bound: int) -> None:
        """The host enqueued an event at `h` that the device passed at `p`; `bound` is h - p."""
        if self._lower is None or bound > self._lower:
            self._lower = bound
            # The clocks drift faster than allowed: the newest bound is right, the other one was.
            if self._upper is not None and self._upper < bound:
                self._upper = 2 * bound - self._upper

    def observe(self, bound: int) -> None:
        """At `q` the host saw that the device had passed an event that it passed at `p`: q - p."""
        if self._upper is None or bound < self._upper:
            self._upper = bound
            if self._lower is not None and self._lower > bound:
                self._lower = 2 * bound - self._lower
