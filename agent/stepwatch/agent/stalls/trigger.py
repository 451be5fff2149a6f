"""Detects a rank that looks stalled on this node: its lines have not changed for too long.

It only decides which ranks to ask. The collector, which sees all nodes, decides whether the job
hangs.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Phase

LEAST_SECONDS = 3.0
"""Minimum stall: the collector waits 5 s, and the answers must arrive earlier."""
STEP_MULTIPLE = 4.0
"""The limit as a multiple of the rank's usual step: half the collector's limit."""
FIRST_STEP_SECONDS = 120.0
"""Limit before the rank's first step has ended: compilation and first network use."""
PAUSE_SECONDS = 60.0
"""Limit in a checkpoint or an evaluation: the collector waits 75 s."""
_STEPS_KEPT = 16


class Progress(NamedTuple):
    """A rank's phase now, and the newest change in its live or collective line."""

    now_ns: int
    phase: int
    moved_ns: int


class StallTrigger:
    """Compare a rank's progress with its usual step time from its newest STEP records."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_STEPS_KEPT)

    def note_step(self, seconds: float) -> None:
        """Record a step's duration."""
        self._seconds.append(seconds)

    @property
    def usual_seconds(self) -> float:
        """The median of the newest steps' durations; 0 before the first step has ended."""
        ordered = sorted(self._seconds)  # the module `statistics` takes half a MiB
        middle = len(ordered) // 2
        return (ordered[middle] + ordered[~middle]) / 2 if ordered else 0.0

    def is_stalled(self, progress: Progress) -> bool:
        """Return whether the rank made no progress for longer than its step time explains."""
        idle_ns = progress.now_ns - progress.moved_ns
        return idle_ns > self._allowed(progress.phase) * NANOSECONDS

    def _allowed(self, phase: int) -> float:
        if phase in (Phase.CHECKPOINT, Phase.EVAL):
            return PAUSE_SECONDS
        if not self._seconds:
            return FIRST_STEP_SECONDS
        return max(LEAST_SECONDS, STEP_MULTIPLE * self.usual_seconds)
