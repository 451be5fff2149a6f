"""When a rank looks stalled from this node: its lines have not changed for too long.

It only decides whom to ask; whether the job hangs is for the collector, which sees all nodes.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import NamedTuple

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase

LEAST_SECONDS = 3.0
"""Shortest stall that counts: the collector waits 5 s, the answers must be there by then."""
STEP_MULTIPLE = 4.0
"""The same as a multiple of the rank's usual step: half of what the collector allows."""
FIRST_STEP_SECONDS = 120.0
"""Before the rank's first step has ended: compilation and first use of the network."""
PAUSE_SECONDS = 60.0
"""In a checkpoint or an evaluation: the collector waits 75 s."""
_STEPS_KEPT = 16


class Progress(NamedTuple):
    """A rank now: its phase, and when its live or collective line last changed."""

    now_ns: int
    phase: int
    moved_ns: int


class StallTrigger:
    """Compares a rank's progress with its usual step time, from its newest STEP records."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_STEPS_KEPT)

    def note_step(self, seconds: float) -> None:
        """A step of the rank lasted so long."""
        self._seconds.append(seconds)

    def is_stalled(self, progress: Progress) -> bool:
        """Whether the rank made no progress for longer than its own step time explains."""
        idle_ns = progress.now_ns - progress.moved_ns
        return idle_ns > self._allowed(progress.phase) * NANOSECONDS

    def _allowed(self, phase: int) -> float:
        if phase in (Phase.CHECKPOINT, Phase.EVAL):
            return PAUSE_SECONDS
        if not self._seconds:
            return FIRST_STEP_SECONDS
        return max(LEAST_SECONDS, STEP_MULTIPLE * statistics.median(self._seconds))
