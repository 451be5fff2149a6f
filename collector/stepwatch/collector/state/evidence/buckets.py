"""Rank costs and work, summed over short time buckets: ten minutes at bounded memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.cells import Cells
from stepwatch.collector.state.evidence.held_up import HeldUp
from stepwatch.collector.state.evidence.long_steps import LEVELS, added
from stepwatch.collector.state.evidence.step_window import WORK
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
"""Total step time in seconds that closes a bucket."""
BUCKETS = 60
_MOST_STEPS = 60_000
"""Maximum number of steps in a bucket: `seen` counts in 16 bits."""


class Course(NamedTuple):
    """Time buckets, oldest first.

    Attributes:
        seconds: total step time (buckets,).
        steps: step count (buckets,).
        first_step: first step (buckets,).
        least_wait: shortest collective time on any rank, summed, seconds (buckets,).
        cost: seconds that each rank or node held its stage up (buckets, units).
        work: each rank's work in each of `WORK`, seconds (buckets, phases, ranks).
        begun: long-step starts at each of `LEVELS` (buckets, levels, units), 255 for more.
        pipeline_wait: mean wait for pipeline neighbours, seconds (buckets,).
        compared: steps in which a rank or node had peers to compare with (buckets, units); in other
            steps its cost is unknown.
        lost_to_one: seconds lost to single ranks that were far late (buckets, phases).
        lost_to_data: seconds lost to data that all ranks waited for (buckets,).
        times: steps with a loss in `lost_to_one`, and in `lost_to_data` (buckets, 2).
    """

    seconds: Vector
    steps: Integers
    first_step: Integers
    least_wait: Vector
    cost: Matrix
    work: Cube32
    begun: Cube8
    pipeline_wait: Vector
    compared: Matrix16
    lost_to_one: Matrix
    lost_to_data: Vector
    times: IntegerMatrix


class Buckets:
    """The newest `BUCKETS` buckets for `units`, whose first `ranks` are ranks: 1.8 KB a rank.

    Sums are added step by step, so the split into calls makes no difference.
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
        """Closed buckets so far; the open bucket's position is this modulo `BUCKETS`."""

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
        """Add steps in rising order.

        Args:
            cells: the steps.
            units: ranks and nodes with a `cost`.
            cost: seconds (steps, units).
            work: all ranks' work in seconds (phases, steps, ranks).
            begun: long-step starts (steps, levels, all units).
            compared: units that have peers to compare with.
            losses: time lost to single ranks and to all ranks.
        """
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
        """Return all buckets with steps, including the open one."""
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
        """Return the position of the bucket for `step`, in a new bucket if the newest is full."""
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
