"""Self time of each rank over a whole attempt: the largest in each of a few hundred spans of steps.

The newest steps are in the rings, one by one. Spans have a power of two of steps, which doubles
when there are too many, so they cover the attempt, however long. A maximum does not depend on the
order of values, or on when spans were joined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import WORK, CellRing, RingPlanes
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.tracker import CELL_BYTES, Batch, TrackedAttempt, Tracker
from stepwatch.collector.step_clocks import DEVICE, HOST, StepClock
from stepwatch.signals.arrays import Integers, MaskMatrix, Matrix32, Vector

MOST_SPANS, LEAST_SPANS = 512, 32
MAX_CELLS = 1 << 20
"""4 MB; 512 spans for up to 2,048 ranks, 64 for 16,384."""
_CELLS_AT_ONCE = 1 << 17
"""(step, rank) cells read at once, sized for the CPU cache."""


class SettledRanks(NamedTuple):
    """Settled steps (steps,) with a value: their ends, Unix seconds, and the ring that holds them.

    `later` are newer rows in the host ring, which do not count for these steps.
    """

    clock: StepClock
    steps: Integers
    ends_s: Vector
    timed_by: CellRing
    hosts: CellRing
    later: Fresh


class RankHistory(Tracker):
    """Seconds by span and rank in `seconds` (most spans, world), NaN while unknown.

    Row 0 is the span that begins at the step `first`, each span has `1 << shift` steps, and `used`
    spans are known. `ends_s` (most spans,) is the end of the newest step in a span, Unix seconds.
    All values are on one `clock`; a change of the clock begins anew.
    """

    given_back = True
    order = 46

    def __init__(self) -> None:
        self.clock: StepClock = HOST
        self.shift = self.used = 0
        self.first = self.newest = -1
        """First step of the first span, and the newest step; -1 before the first."""
        self.seconds: Matrix32 = np.zeros((0, 0), dtype=np.float32)
        self.ends_s: Vector = np.zeros(0)

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Do nothing: steps come when they are settled."""

    def settle(self, settled: SettledRanks, world: int) -> None:
        """Add settled steps; the split into calls makes no difference."""
        if not len(settled.steps):
            return
        if settled.clock != self.clock or self.seconds.shape[1] != world:
            self._begin(settled.clock, world)
        several = max(1, _CELLS_AT_ONCE // world)
        for begin in range(0, len(settled.steps), several):
            chunk = slice(begin, begin + several)
            steps = settled.steps[chunk]
            counted = _counted(steps, settled)
            planes = RingPlanes(settled.timed_by.cells_of(steps, counted, WORK), *counted.shape)
            total: Matrix32 = planes[WORK[0]]
            for name in WORK[1:]:
                total = total + planes[name]
            self._add(steps, settled.ends_s[chunk], total)

    def _begin(self, clock: StepClock, world: int) -> None:
        """Begin anew on another clock; with more ranks, keep what is known."""
        earlier, same_clock = self.seconds, clock == self.clock
        most = int(np.clip(MAX_CELLS // world, LEAST_SPANS, MOST_SPANS))
        self.clock = clock
        self.seconds = np.full((most, world), np.nan, dtype=np.float32)
        ends_s, self.ends_s = self.ends_s, np.full(most, -np.inf)
        if not same_clock or not self.used:
            self.shift = self.used = 0
            self.first = self.newest = -1
            return
        while self.used > most:
            earlier, ends_s = self._joined(earlier, ends_s)
        self.seconds[: self.used, : earlier.shape[1]] = earlier[: self.used]
        self.ends_s[: self.used] = ends_s[: self.used]

    def _joined(self, seconds: Matrix32, ends_s: Vector) -> tuple[Matrix32, Vector]:
        """Join pairs of spans; a pair begins at a multiple of its length.

        Spans of one step from step 3 on: 3, then 4 and 5, then 6 and 7.
        """
        begin = self.first >> self.shift
        places = ((begin + np.arange(self.used)) >> 1) - (begin >> 1)
        starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
        self.shift += 1
        self.first = self.first >> self.shift << self.shift
        if not self.used:
            return seconds[:0], ends_s[:0]
        seconds = np.fmax.reduceat(seconds[: self.used], starts, axis=0)
        ends_s = np.maximum.reduceat(ends_s[: self.used], starts)
        self.used = len(starts)
        return seconds, ends_s

    def _add(self, steps: Integers, ends_s: Vector, seconds: Matrix32) -> None:
        if self.used and int(steps[0]) < self.first:  # numbered anew: it begins again
            self.used = 0
            self.seconds[:], self.ends_s[:] = np.nan, -np.inf
        if not self.used:
            self.shift, self.first = 0, int(steps[0])
        self.newest = int(steps[-1])
        most = len(self.seconds)
        while (self.newest >> self.shift) - (self.first >> self.shift) >= most:
            joined, joined_ends_s = self._joined(self.seconds, self.ends_s)
            self.seconds[self.used :], self.ends_s[self.used :] = np.nan, -np.inf
            self.seconds[: self.used], self.ends_s[: self.used] = joined, joined_ends_s
        places = (steps >> self.shift) - (self.first >> self.shift)
        starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
        spans = places[starts]
        self.used = int(spans[-1]) + 1
        largest = np.fmax.reduceat(seconds, starts, axis=0)
        self.seconds[spans] = np.fmax(self.seconds[spans], largest)
        self.ends_s[spans] = np.maximum(self.ends_s[spans], np.maximum.reduceat(ends_s, starts))

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return (self.seconds.nbytes + self.ends_s.nbytes) // CELL_BYTES


def _counted(steps: Integers, settled: SettledRanks) -> MaskMatrix:
    """Return the cells (steps, ranks) that count: held by both rings, and not `later`."""
    counted = settled.hosts.holds(steps)
    later = settled.later
    if len(later.rows):
        place = np.minimum(np.searchsorted(steps, later.steps), len(steps) - 1)
        matches = steps[place] == later.steps
        counted[place[matches], later.rows["rank"][matches].astype(np.int64)] = False
    return counted & settled.timed_by.holds(steps) if settled.clock == DEVICE else counted
