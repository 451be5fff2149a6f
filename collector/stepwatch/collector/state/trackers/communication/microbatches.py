"""The newest sampled pipeline steps in one attempt: MICROBATCH rows in arrival order."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.ingest import validation
from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.collector.state.trackers.communication.microbatch_timeline import (
    MicrobatchTimeline,
    microbatch_timeline,
)
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.records import Kind, Phase
from stepwatch.signals.wire import Rows

MAX_ROWS = 1 << 17
"""Maximum rows per sample, 38 bytes each: 1,024 ranks with 128 chunks.

Later rows are ignored, and their ranks are not reported.
"""
STEPS_AHEAD = 16
"""A rank writes a step's chunks before the step, and holds at most 8 steps back for a loss."""
_MAX_PARTS = 32

CHUNK = np.dtype(
    [
        ("rank", "<i4"),
        ("step", "<u4"),
        ("index", "<u2"),
        ("stage", "<u2"),
        ("microbatch", "<u2"),
        ("phase", "<u2"),
        ("weight_only", "<u2"),
        ("began_ns", "<i8"),
        ("ended_ns", "<i8"),
        ("blocked_ns", "<i8"),
    ]
)
"""A MICROBATCH row; moments in nanoseconds on the clock of the rank's node."""


class Sample:
    """Rows for one sampled step, at most `MAX_ROWS`, in arrival order."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.count = 0
        self._parts: list[Rows] = []
        self._laid_out: tuple[int, MicrobatchTimeline | None] = (0, None)

    def add(self, rows: Rows) -> None:
        """Add rows for this step."""
        stored = np.zeros(min(len(rows), MAX_ROWS - self.count), dtype=CHUNK)
        for name in CHUNK.names or ():
            stored[name] = rows["time_ns" if name == "ended_ns" else name][: len(stored)]
        self.count += len(stored)
        self._parts.append(stored)
        if len(self._parts) > _MAX_PARTS:
            self._parts = [self.rows]

    @property
    def rows(self) -> Rows:
        """All received rows."""
        joined: Rows = np.concatenate([np.zeros(0, dtype=CHUNK), *self._parts])
        return joined

    @property
    def microbatch_timeline(self) -> MicrobatchTimeline | None:
        """The timeline, computed once until rows are added."""
        if self._laid_out[0] != self.count:
            self._laid_out = self.count, microbatch_timeline(self.rows)
        return self._laid_out[1]

    @property
    def ranks(self) -> int:
        """Number of ranks that reported a complete part."""
        rows = self.rows
        return len(np.unique(rows["rank"][rows["phase"] == Phase.OTHER]))


class Microbatches(Tracker):
    """Keeps two samples: the newest, and the previous one while the newest still arrives."""

    kinds = frozenset({Kind.MICROBATCH})
    given_back = True

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return sum(sample.count for sample in self._samples)

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Apply MICROBATCH rows."""
        if (rows := batch.rows(Kind.MICROBATCH)) is not None:
            newest = attempt.tracker(Steps).ring.newest
            attempt.refused_records += self.add(rows, attempt.world, newest)

    def add(self, rows: Rows, world: int, newest_step: int) -> int:
        """Add MICROBATCH rows; `newest_step` is the newest known step.

        Returns the number of refused invalid rows; rows for older samples are ignored.
        """
        usable = rows[validation.microbatches(rows, world)]
        usable = usable[usable["step"] <= newest_step + STEPS_AHEAD]
        for step in np.unique(usable["step"])[-2:].tolist():
            sample = self._sample(step)
            if sample is not None:
                sample.add(usable[usable["step"] == step])
        return len(rows) - len(usable)

    def sample(self) -> Sample | None:
        """Return the newest sample, or the previous one if more ranks reported it."""
        return max(reversed(self._samples), key=lambda sample: sample.ranks, default=None)

    def _sample(self, step: int) -> Sample | None:
        """Return the sample for `step`, a new one if `step` is the newest."""
        for sample in self._samples:
            if sample.step == step:
                return sample
        if self._samples and step < self._samples[-1].step:
            return None
        self._samples = [*self._samples[-1:], Sample(step)]
        return self._samples[-1]
