"""What ranks cost and how long they work, summed over stretches of time: ten minutes at bounded
memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.cells import Cells
from stepwatch.collector.state.evidence.held_up import HeldUp
from stepwatch.collector.state.evidence.long_steps import LEVELS, added
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import (
    Cube8,
    Cube32,
    IntegerMatrix,
    Integers,
    Matrix,
    Matrix16,
    Matrix32,
    Vector,
)

BUCKET_SECONDS = 10.0
"""A bucket is closed once its steps take so long together."""
BUCKETS = 60
_MOST_STEPS = 60_000
"""A bucket takes no more, however short they are: what `seen` counts in 16 bits."""


class Course(NamedTuple):
    """Buckets, oldest first: seconds of their steps, how many these are and the first of them, and
    what ranks that waited least were in collectives (buckets,), seconds that each rank or node held
    its stage up (buckets, units), how long each rank worked in each of `WORK` (buckets, phases,
    ranks), how often long steps of each of `LEVELS` began (buckets, levels, units), 255 for more,
    what ranks waited for pipeline neighbours on average (buckets,), and in how many of the steps
    each rank or node was compared with others (buckets, units): of the rest of them nobody knows
    what it cost. `alone` (buckets, phases) and `together` (buckets,) are seconds that the job lost
    to ranks that were far late alone, whichever they were, and to data that all waited for;
    `times` (buckets, 2) is in how many steps."""

    seconds: Vector
    steps: Integers
    first_step: Integers
    least_wait: Vector
    cost: Matrix
    work: Cube32
    begun: Cube8
    pipeline_wait: Vector
    seen: Matrix16
    alone: Matrix
    together: Vector
    times: IntegerMatrix


class Buckets:
    """The newest `BUCKETS` buckets of `units`, of which the first `ranks` are ranks: 1.8 KB a rank.

    Sums are taken step after step, so that it makes no difference which steps come in one call.
    """

    def __init__(self, units: int, ranks: int) -> None:
        self._seconds = np.zeros(BUCKETS)
        self._steps = np.zeros(BUCKETS, dtype=np.int64)
        self._first_step = np.zeros(BUCKETS, dtype=np.int64)
        self._least_wait = np.zeros(BUCKETS)
        self._pipeline_wait = np.zeros(BUCKETS)
        self._cost = np.zeros((BUCKETS, units), dtype=np.float32)
        self._work = np.zeros((BUCKETS, len(WORK), ranks), dtype=np.float32)
        self._begun_long = np.zeros((BUCKETS, len(LEVELS), units), dtype=np.uint8)
        self._seen = np.zeros((BUCKETS, units), dtype=np.uint16)
        self._alone = np.zeros((BUCKETS, len(WORK)))
        self._together = np.zeros(BUCKETS)
        self._times = np.zeros((BUCKETS, 2), dtype=np.int64)
        self._newest = 0
        """How many buckets were closed: the one under way is at this place, modulo `BUCKETS`."""

    def add(
        self,
        cells: Cells,
        units: Integers,
        cost: Matrix32,
        work: Cube32,
        begun: Cube8,
        compared: Integers,
        losses: HeldUp,
    ) -> None:
        """Take steps in rising order: what some `units` cost (steps, units), the work of all ranks
        (phases, steps, ranks), where long steps begin (steps, levels, all units), which units
        were `compared` with others, and what the job lost to whichever rank or to all."""
        all_costed, every = (len(numbers) == self._cost.shape[1] for numbers in (units, compared))
        long = begun.reshape(len(begun), -1).max(axis=1, initial=0)
        lost = losses.alone.any(axis=1) | (losses.together > 0)
        waits = cells.least_wait.tolist(), cells.pipeline_wait.tolist()
        per_step = zip(cells.steps, cells.seconds.tolist(), *waits, strict=True)
        for number, (step, lasted, waited, neighbours) in enumerate(per_step):
            place = self._begun(int(step))
            self._seconds[place] += lasted
            self._least_wait[place] += waited
            self._pipeline_wait[place] += neighbours
            self._steps[place] += 1
            self._work[place] += work[:, number]
            if lost[number]:
                self._alone[place] += losses.alone[number]
                self._together[place] += losses.together[number]
                self._times[place, 0] += bool(losses.alone[number].any())
                self._times[place, 1] += bool(losses.together[number])
            if long[number]:
                added(self._begun_long[place], begun[number])
            if all_costed:
                self._cost[place] += cost[number]
            else:
                self._cost[place, units] += cost[number]
            if every:
                self._seen[place] += 1
            else:
                self._seen[place, compared] += 1

    def course(self) -> Course:
        """All buckets with steps, the one under way included."""
        count = min(self._newest + 1, BUCKETS)
        places = np.arange(self._newest - count + 1, self._newest + 1) % BUCKETS
        places = places[self._steps[places] > 0]
        return Course(
            self._seconds[places],
            self._steps[places],
            self._first_step[places],
            self._least_wait[places],
            self._cost[places].astype(np.float64),
            self._work[places],
            self._begun_long[places],
            self._pipeline_wait[places],
            self._seen[places],
            self._alone[places],
            self._together[places],
            self._times[places],
        )

    def _begun(self, step: int) -> int:
        """The place of the bucket that takes `step`, begun anew where the one before is full."""
        place = self._newest % BUCKETS
        if self._seconds[place] >= BUCKET_SECONDS or self._steps[place] >= _MOST_STEPS:
            self._newest += 1
            place = self._newest % BUCKETS
            self._seconds[place], self._steps[place] = 0.0, 0
            self._least_wait[place], self._pipeline_wait[place] = 0.0, 0.0
            self._cost[place], self._work[place], self._begun_long[place] = 0.0, 0.0, 0
            self._seen[place], self._times[place] = 0, 0
            self._alone[place], self._together[place] = 0.0, 0.0
        if not self._steps[place]:
            self._first_step[place] = step
        return place
