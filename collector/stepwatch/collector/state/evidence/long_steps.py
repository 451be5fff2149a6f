"""Counts how often each rank works far longer than its peers: evidence on what is rare and large.

A bet needs as many hits as make it improbable that the same rank had them all, and among two ranks
each hit is worth a factor of two, however large it is. How often healthy ranks have such steps at
all says more.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.evidence.bets import Values
from stepwatch.signals.arrays import Cube8, IntegerMatrix, Integers, MaskMatrix

LEVELS = (0.5, 1.0, 2.0, 4.0)
"""How much longer than the median rank of its stage, in usual steps of work."""


class LongSteps:
    """Which of `units` are at each level right now, so that a run of long steps counts once.

    `totals` (levels, units) counts the runs since it began, in the `steps` (units,) in which each
    was compared with others.
    """

    def __init__(self, units: int) -> None:
        self._lasts: MaskMatrix = np.zeros((len(LEVELS), units), dtype=np.bool_)
        self.totals: IntegerMatrix = np.zeros((len(LEVELS), units), dtype=np.int64)
        self.steps: Integers = np.zeros(units, dtype=np.int64)

    def begun(self, excess: Values, units: Integers, compared: Integers) -> Cube8:
        """Where long steps begin (steps, levels, all units), 1 or 0, given the `excess` (steps,
        units) of some `units`, of which those `compared` have peers; the others begin none."""
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
    """Add to `counts` in place; 255 stands for more."""
    np.minimum(counts, 255 - begun, out=counts)
    counts += begun
