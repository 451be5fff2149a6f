"""Evidence input per step: the reporting ranks' work, as known when it settled.

All values are computed step by step, or along the ranks within one step, so the number of steps
taken at once makes no difference. Arrays that are summed over ranks are contiguous for this reason:
numpy adds in another order otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.bets import Values
from stepwatch.collector.state.evidence.step_window import WORK, CellRing, StepRing
from stepwatch.collector.step_clocks import StepClock
from stepwatch.signals.arrays import (
    Cube32,
    IntegerMatrix,
    Integers,
    Mask,
    MaskMatrix,
    Matrix32,
    SmallIntegers,
    Vector,
)

PAUSE_SECONDS, PAUSE_TIMES = 5.0, 4.0
"""A rank whose time outside all phases exceeds both limits (seconds, times its phase time) pauses.

If most ranks pause in one step, the job evaluates or saves without a report; that is not comparable
work. A rank that pauses alone is late for all other ranks.
"""


class Arrangement(NamedTuple):
    """The step clock, and each rank's stage and node number (ranks,)."""

    clock: StepClock
    stage: SmallIntegers
    node: Integers

    def is_like(self, arrangement: Arrangement) -> bool:
        """Return whether evidence from one arrangement is valid in the other."""
        same_layout = np.array_equal(self.stage, arrangement.stage) and np.array_equal(
            self.node, arrangement.node
        )
        return self.clock == arrangement.clock and same_layout


class Cells(NamedTuple):
    """Work per step, in rising order.

    `seconds` is the step time (steps,), `work` the time in each of `WORK` (phases, steps, ranks),
    `tokens` has shape (steps, ranks), `reported` (steps, ranks) marks ranks that reported.
    `least_wait` (steps,) is the shortest collective time on any rank: the last arriver
    waits for the transfer only. `pipeline_wait` (steps,) is the ranks' mean wait for pipeline
    neighbours, 0 without a pipeline.
    """

    steps: Integers
    seconds: Vector
    work: Cube32
    tokens: Matrix32
    reported: MaskMatrix
    least_wait: Vector
    pipeline_wait: Vector

    def select(self, rows: slice) -> Cells:
        """Return a slice of the steps."""
        return Cells(
            self.steps[rows],
            self.seconds[rows],
            self.work[:, rows],
            self.tokens[rows],
            self.reported[rows],
            self.least_wait[rows],
            self.pipeline_wait[rows],
        )

    def alike(self) -> Iterator[Cells]:
        """Iterate over runs of steps that the same ranks reported."""
        changes = (self.reported[1:] != self.reported[:-1]).any(axis=1)
        starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(self.steps)]
        for begin, end in itertools.pairwise(starts):
            yield self.select(slice(begin, end))


def cells_of(
    steps: Integers, seconds: Vector, timed_by: CellRing, hosts: StepRing, entered: MaskMatrix
) -> Cells:
    """Return the cells for steps that `timed_by` holds: the host ring, or the device ring.

    `entered` (steps, ranks) marks the host cells that count.
    """
    reported = entered if timed_by is hosts else timed_by.holds(steps)
    slots, no_mask = steps % timed_by.depth, np.zeros((0, 0), dtype=np.bool_)
    planes = timed_by.cells_of(steps, no_mask, WORK)
    work = np.empty((len(WORK), len(steps), timed_by.world), dtype=np.float32)
    for out, name in zip(work, WORK, strict=True):
        np.take(planes[name][0], slots, axis=0, out=out)
    _without_pauses(work, reported)
    (plane, _) = hosts.cells_of(steps, no_mask, ("tokens",))["tokens"]
    tokens = plane[steps % hosts.depth]
    if not entered.all():
        tokens[~entered] = np.nan
    waits = timed_by.cells_of(steps, no_mask, ("collective", "pipeline_wait"))
    least = np.where(reported, np.take(waits["collective"][0], slots, axis=0), np.inf).min(axis=1)
    least = np.where(np.isfinite(least), least, 0.0).astype(np.float64)
    neighbours = np.take(waits["pipeline_wait"][0], slots, axis=0)
    return Cells(steps, seconds, work, tokens, reported, least, _mean(neighbours, reported))


def _mean(values: Matrix32, reported: MaskMatrix) -> Vector:
    """Return the mean over reporting ranks (steps,), step by step; values (steps, ranks)."""
    count = np.maximum(reported.sum(axis=1), 1)
    return np.asarray(np.where(reported, values, 0.0).astype(np.float64).sum(axis=1) / count)


def _without_pauses(work: Cube32, reported: MaskMatrix) -> None:
    """Set the "other" work to 0 in place, in steps where most `reported` ranks pause.

    `work` has shape (phases, steps, ranks), `reported` (steps, ranks).
    """
    outside = work[WORK.index("other")]
    if outside.max(initial=0.0) < PAUSE_SECONDS:  # nearly always
        return
    phases = work.sum(axis=0) - outside
    pauses = reported & (outside >= PAUSE_SECONDS) & (outside >= PAUSE_TIMES * phases)
    most: Mask = 2 * pauses.sum(axis=1) > reported.sum(axis=1)
    outside[pauses & most[:, None]] = 0.0


def stages_by_size(stage: SmallIntegers) -> list[IntegerMatrix]:
    """Return the ranks (stages, size) in all stages with equal size, for each size above one."""
    order = np.argsort(stage, kind="stable")
    _, starts, counts = np.unique(stage[order], return_index=True, return_counts=True)
    return [
        order[starts[counts == size][:, None] + np.arange(size)]
        for size in np.unique(counts[counts > 1]).tolist()
    ]


def alike_nodes(stage: SmallIntegers, node: Integers) -> IntegerMatrix:
    """Return the ranks (nodes, size) on each node if nodes are comparable, else an empty array.

    Nodes are comparable if there are at least two, of equal size, with several ranks each, and all
    in one stage.
    """
    sizes = np.unique(node, return_counts=True)[1]
    several = len(sizes) > 1 and sizes[0] > 1 and bool((sizes == sizes[0]).all())
    if not several or len(np.unique(stage)) > 1:
        return np.zeros((0, 0), dtype=np.int64)
    return np.argsort(node, kind="stable").reshape(len(sizes), -1)


def picked(values: Values, members: IntegerMatrix) -> Values:
    """Return contiguous `values[:, members]` (steps, groups, size).

    `values` are (steps, ranks), and `members` the ranks of each group, (groups, size).
    """
    if members.size == values.shape[1] and (np.diff(members.ravel()) == 1).all():
        return np.ascontiguousarray(values).reshape(len(values), *members.shape)
    return np.take(values, members.ravel(), axis=1).reshape(len(values), *members.shape)


def median(values: Values) -> Values:
    """Return the median over the last axis, which is kept."""
    size = values.shape[-1]
    parts = np.partition(values, size // 2, axis=-1)
    middle: Values = parts[..., size // 2 : size // 2 + 1]
    if size % 2 == 0:
        below = parts[..., : size // 2].max(axis=-1, keepdims=True)
        middle = (below + middle) * np.float32(0.5)
    return middle


def filled(cells: Cells, stage: SmallIntegers, ranks: Integers) -> Cube32:
    """Return the work in steps that `ranks` reported, with the other ranks filled in.

    Another rank gets its stage's median work, so its excess is zero; 0 if no rank in the stage
    reported.
    """
    if len(ranks) == len(stage):
        return cells.work
    work: Cube32 = np.zeros_like(cells.work)
    work[:, :, ranks] = cells.work[:, :, ranks]
    reported: Mask = np.isin(np.arange(len(stage)), ranks)
    for stage_number in np.unique(stage[~reported]).tolist():
        peers = np.flatnonzero((stage == stage_number) & reported)
        if len(peers):
            usual = median(np.take(cells.work, peers, axis=2))
            work[:, :, (stage == stage_number) & ~reported] = usual
    return work
