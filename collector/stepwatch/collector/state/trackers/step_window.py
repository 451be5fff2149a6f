"""The newest steps of one attempt as arrays over (step, rank): what detectors look at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Integers, Mask
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import PHASE_NAMES
from stepwatch.signals.wire import Rows

MAX_CELLS = 1 << 22
MAX_STEPS, LEAST_STEPS = 512, 32
COLUMNS = ("duration", *PHASE_NAMES, "collective", "pipeline_wait")
"""Planes of a window in seconds; NaN where nothing was received."""
WORK = ("data", "forward", "backward", "optimizer", "other")
"""Phases of a rank's self time."""
MAX_STAGES = 256
"""Beyond any pipeline that is run; more are taken for a mistake."""
VALUES = ("tokens", "loss", "grad_norm")
"""Planes of a window that hold what a rank recorded, as it stands; NaN where unknown."""
_PLANES = (*COLUMNS, *VALUES)

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Window(NamedTuple):
    """Steps in rising order; `planes` maps each of `COLUMNS` and `VALUES` to an array (steps,
    ranks).

    `flags` (steps, ranks) holds `records.StepFlag`; `stage` (ranks,) the pipeline stage, -1 while
    unknown.
    """

    steps: np.ndarray[tuple[int], np.dtype[np.int64]]
    planes: dict[str, Matrix]
    flags: np.ndarray[tuple[int, int], np.dtype[np.uint16]]
    stage: np.ndarray[tuple[int], np.dtype[np.int16]]

    def at(self, chosen: Integers | Mask) -> Window:
        """Some of the steps: positions of rows, or a mask (steps,)."""
        planes = {name: plane[chosen] for name, plane in self.planes.items()}
        return self._replace(steps=self.steps[chosen], planes=planes, flags=self.flags[chosen])


class StepRing:
    """Keeps the newest steps of `world` ranks in preallocated planes."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.depth = int(np.clip(MAX_CELLS // max(world, 1), LEAST_STEPS, MAX_STEPS))
        shape = (self.depth, world)
        self.newest = -1
        """The newest step that any rank reported; -1 before the first."""
        self._step = np.full(shape, -1, dtype=np.int64)
        self._flags = np.zeros(shape, dtype=np.uint16)
        self._planes = {name: np.full(shape, np.nan, dtype=np.float32) for name in _PLANES}

    @property
    def cells(self) -> int:
        """(step, rank) cells held."""
        return self.depth * self.world

    def grown(self, world: int) -> StepRing:
        """A ring for more ranks that knows what this one knows."""
        larger = StepRing(world)
        larger.newest = self.newest
        slots, ranks = np.nonzero(self._step >= 0)
        steps = self._step[slots, ranks]
        order = np.argsort(steps, kind="stable")  # of two steps in one slot the newer one stays
        slots, ranks, steps = slots[order], ranks[order], steps[order]
        at = (steps % larger.depth, ranks)
        larger._step[at] = steps
        larger._flags[at] = self._flags[slots, ranks]
        for name, plane in self._planes.items():
            larger._planes[name][at] = plane[slots, ranks]
        return larger

    def add(self, rows: Rows) -> Rows:
        """Take STEP rows of ranks below `world`; returns those that were new to their rank.

        A row that is `depth` steps older than the newest of its own rank counts as repeated. A rank
        that is late, by however much, is new: `window` leaves out what is too old for it.
        """
        return rows[self.add_all(rows, np.zeros(len(rows), dtype=np.int64))]

    def add_all(self, rows: Rows, origin: Integers) -> Integers:
        """Take rows of several batches, `origin` (rows,) rising; returns where the new ones are.

        These come batch by batch, in each by rank and step. The steps of several batches span less
        than `depth`.
        """
        rank, step = rows["rank"].astype(np.int64), rows["step"].astype(np.int64)
        _, firsts = np.unique(rank << 32 | step, return_index=True)  # a step has 32 bits
        fresh: Integers = firsts[self._step[step[firsts] % self.depth, rank[firsts]] < step[firsts]]
        fresh = fresh[np.argsort(origin[fresh], kind="stable")]
        rows, step = rows[fresh], step[fresh]
        at = (step % self.depth, rank[fresh])
        self._step[at] = step
        self.newest = max(self.newest, int(step.max(initial=-1)))
        self._flags[at] = rows["flags"]
        for name, plane in self._planes.items():
            plane[at] = rows[name] if name in VALUES else rows[f"{name}_ns"] / NANOSECONDS
        return fresh

    def window(self, count: int, stage: np.ndarray[tuple[int], np.dtype[np.int16]]) -> Window:
        """The newest `count` steps that any rank reported."""
        newest = self.newest
        steps = np.arange(max(0, newest - min(count, self.depth) + 1), newest + 1, dtype=np.int64)
        slots = steps % self.depth
        known = self._step[slots] == steps[:, None]
        steps, slots, known = (
            steps[known.any(axis=1)],
            slots[known.any(axis=1)],
            known[known.any(axis=1)],
        )
        planes = {
            name: np.where(known, plane[slots], np.float32(np.nan))
            for name, plane in self._planes.items()
        }
        return Window(steps, planes, np.where(known, self._flags[slots], 0), stage)
