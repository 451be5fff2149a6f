"""Count how often each rank works far longer than its peers: evidence for rare, large effects.

A bet needs many hits before it is improbable that one rank had them all by chance; with two ranks
each hit is only worth a factor of two, however large it is. The rate of such steps on healthy ranks
says more.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.evidence.bets import Values
from stepwatch.signals.arrays import Cube8, IntegerMatrix, Integers, MaskMatrix

LEVELS = (0.5, 1.0, 2.0, 4.0)
"""Excess over the stage's median rank, in usual steps of work."""


class LongSteps:
    """Levels that each of `units` exceeds at present, so a run of long steps counts once.

    `totals` (levels, units) counts runs since the start, within the `steps` (units,) that had peers
    to compare with.
    """

    def __init__(self, units: int) -> None:
        self._lasts: MaskMatrix = np.zeros((len(LEVELS), units), dtype=np.bool_)
        self.totals: IntegerMatrix = np.zeros((len(LEVELS), units), dtype=np.int64)
        self.steps: Integers = np.zeros(units, dtype=np.int64)

    def begun(self, excess: Values, units: Integers, compared: Integers) -> Cube8:
        """Return the starts of long steps (steps, levels, all units), 1 or 0.

        `excess` (steps, units) is for some `units`; `compared` are the units with peers. Other
        units start none.
        """
        every = self._lasts.shape[1]
        self.steps[compared] += len(excess)
        starts = np.zeros((len(excess), len(LEVELS), every), dtype=np.uint8)
        if not self._lasts.any() and excess.max(initial=0.0) < LEVELS[0]:  # nearly always
            return starts
        is_long = excess[:, None, :] >= np.array(LEVELS, dtype=np.float32)[:, None]
        previous = np.concatenate([self._lasts[None, :, units], is_long[:-1]])
        starts[:, :, units] = is_long & ~previous
        self._lasts[:, units] = is_long[-1]
        self.totals += starts.sum(axis=0, dtype=np.int64)
        return starts


def added(counts: Cube8, begun: Cube8) -> None:
    """Add to `counts` in place; 255 means 255 or more."""
    np.minimum(counts, 255 - begun, out=counts)
    counts += begun
