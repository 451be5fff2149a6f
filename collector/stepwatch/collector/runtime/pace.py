"""What is asked of agents while evaluations take too long: to flush less often.

A segment of ten steps costs a collector little more than one of a single step.
"""

from __future__ import annotations

from stepwatch.signals.pacing import MOST_ASKED_SECONDS

LATE_SECONDS = 2.0
"""An evaluation that takes so long delays verdicts by more than a longer interval would."""
IN_TIME_SECONDS = 0.5
"""One that takes less has room for more segments."""
PATIENCE = 30
"""Evaluations in time before agents may flush more often again: what was asked has taken effect."""
FIRST_SECONDS = 2.0


class AskedPace:
    """`seconds` from one flush to the next are asked of every agent; 0 means nothing is asked.

    It doubles with every evaluation that is late, from `FIRST_SECONDS` up to `MOST_ASKED_SECONDS`,
    and halves after `PATIENCE` evaluations in time.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._in_time = 0

    def evaluated(self, seconds: float) -> None:
        """Note how long an evaluation of all jobs took."""
        self._in_time = self._in_time + 1 if seconds < IN_TIME_SECONDS else 0
        if seconds > LATE_SECONDS:
            self.seconds = min(max(2 * self.seconds, FIRST_SECONDS), MOST_ASKED_SECONDS)
        elif self._in_time >= PATIENCE:
            self._in_time = 0
            self.seconds = self.seconds / 2 if self.seconds > FIRST_SECONDS else 0.0
