"""Restart policy for a process that ended by itself."""

from __future__ import annotations

from collections import deque

MOST = 5
WITHIN_SECONDS = 120.0
"""A process that ends `MOST` times within this time has a defect that a restart does not fix."""
LONGEST_DELAY_SECONDS = 8.0


class Restarts:
    """Counts the ends of one process."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=MOST)

    def delay(self, now: float) -> float | None:
        """Record an end at `now` (monotonic seconds) and return the seconds until the next start.

        None means no further start. The first start is immediate, later ones wait 1, 2, 4, ... s.
        """
        self._ends.append(now)
        recent = [end for end in self._ends if now - end < WITHIN_SECONDS]
        if len(recent) >= MOST:
            return None
        return min(2.0 ** (len(recent) - 2), LONGEST_DELAY_SECONDS) if len(recent) > 1 else 0.0
