"""Asks agents to flush less often while evaluations are slow.

A segment with ten steps costs a collector little more than one with a single step.
"""

from __future__ import annotations

import math

from stepwatch.signals.pacing import MOST_ASKED_SECONDS

LATE_SECONDS = 2.0
"""Lateness beyond which a longer flush interval costs less delay."""
IN_TIME_SECONDS = 0.5
"""Lateness below which there is room for more segments."""
LATE_ROUNDS = 3
"""Late evaluations in a row that double the interval: many new jobs are late once or twice."""
PATIENCE = 30
"""Number of fast evaluations before agents may flush more often again.

Then the previous request has taken effect.
"""
FIRST_SECONDS = 2.0


class AskedPace:
    """The flush interval in `seconds` that every agent is asked for; 0 asks for nothing.

    It doubles after `LATE_ROUNDS` late evaluations, or one that is as late as three, from
    `FIRST_SECONDS` up to `MOST_ASKED_SECONDS`, and halves after `PATIENCE` evaluations in time.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._in_time = self._late = 0
        self._has_refused = False

    @property
    def retry_seconds(self) -> int:
        """Seconds until a refused agent should send again."""
        return max(1, math.ceil(self.seconds))

    def refused(self) -> None:
        """Record that a request was refused for lack of time or room; from any thread."""
        self._has_refused = True

    def evaluated(self, seconds: float) -> None:
        """Record by how many seconds a round of evaluations, or a job's wait, was late.

        A round in which a request was refused counts as late.
        """
        if self._has_refused:
            self._has_refused, seconds = False, max(seconds, 1.5 * LATE_SECONDS)
        self._in_time = self._in_time + 1 if seconds < IN_TIME_SECONDS else 0
        # A round that is late by 5 s counts as two.
        times = min(seconds / LATE_SECONDS, LATE_ROUNDS)
        self._late = self._late + int(times) if seconds > LATE_SECONDS else 0
        if self._late >= LATE_ROUNDS:
            self._late = 0
            self.seconds = min(max(2 * self.seconds, FIRST_SECONDS), MOST_ASKED_SECONDS)
        elif self._in_time >= PATIENCE:
            self._in_time = 0
            self.seconds = self.seconds / 2 if self.seconds > FIRST_SECONDS else 0.0
