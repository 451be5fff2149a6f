"""Samples of a pipeline step: one record per chunk of work on this rank's stages.

The choice of sampled steps depends on the step and its number of chunks, so that all ranks in a
pipeline sample the same ones. Periods are powers of two: if ranks have unequal numbers of chunks,
the longer period's steps are the shorter one's, too.
"""

from __future__ import annotations

from typing import NamedTuple

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Kind, Phase

EARLY = 8
"""The first sample is this many steps after the first step, which compiles and allocates."""
LEAST_PERIOD = 64
STEPS_PER_ROW = 16
"""Least steps for each record in a sample: 10 to 25 B a record at rest make 1 or 2 B a step."""
MOST_ROWS = 1024
"""A quarter of the ring. A step with more is not sampled whole, and counts as unknown."""
_MICROBATCH = int(Kind.MICROBATCH)
_MOST_NUMBER = 0xFFFF


class Work(NamedTuple):
    """The work of a stage's method: plain integers, for a record."""

    stage: int
    phase: int
    weight_only: int


_CALL = Work(0, int(Phase.OTHER), 0)


class MicrobatchSamples:
    """Decides which steps are sampled and writes their MICROBATCH records."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._ring = recorder.ring
        self.due = -1
        """Step of the next or current sample; below 0 before the first step."""
        self.active = False
        """Whether the current work is part of a sample."""
        self._rows = 0
        self._rows_before_call = 0

    @guarded()
    def call_begins(self, step: int, *, training: bool) -> None:
        """The schedule is called in `step`, which is due or past it."""
        if step > self.due:
            self.due = self._following(step)
            self._rows = 0
        self._rows_before_call = self._rows
        self.active = training and step == self.due

    def _following(self, step: int) -> int:
        """Return the first step to sample from `step` on."""
        if self.due < 0:
            return step + EARLY
        period = max(LEAST_PERIOD, 1 << (STEPS_PER_ROW * self._rows - 1).bit_length())
        return step + (EARLY - step) % period

    @guarded()
    def chunk_ends(
        self, work: Work, microbatch: int, began_ns: int, ended_ns: int, blocked_ns: int
    ) -> None:
        """A chunk of `work` has ended; it spent `blocked_ns` in collectives."""
        # Collectives that began before the chunk may have been counted inside it.
        blocked_ns = min(blocked_ns, ended_ns - began_ns)
        self._write(work, microbatch & _MOST_NUMBER, began_ns, ended_ns, blocked_ns)

    @guarded()
    def call_ends(self, began_ns: int, ended_ns: int) -> None:
        """The sampled call to the schedule has ended."""
        self.active = False
        if self._rows > self._rows_before_call:
            self._write(_CALL, 0, began_ns, ended_ns, 0)

    def _write(
        self, work: Work, microbatch: int, began_ns: int, ended_ns: int, blocked_ns: int
    ) -> None:
        index, ring = self._rows, self._ring
        self._rows += 1
        if index < MOST_ROWS and ring is not None:
            body = (index, work.stage, microbatch, work.phase, work.weight_only)
            ring.write(_MICROBATCH, self.due, ended_ns, *body, began_ns, blocked_ns)
