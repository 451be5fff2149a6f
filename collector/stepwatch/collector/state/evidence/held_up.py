"""Time that a job loses in steps far longer than usual: to one rank, or to data for all ranks.

The rank's identity makes no difference here: a loss that moves from rank to rank appears in
no single rank's evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.bets import Values
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.signals.arrays import (
    Cube32,
    IntegerMatrix,
    Integers,
    Mask,
    Matrix32,
    Vector,
)

LEVEL, LEVEL_OF_WORK = 1.0, 2.0
"""Limits, in usual steps, above which a step counts as a loss.

The first is for a data wait, of a rank or of a stage's median rank. The limit for other work is
higher: a sequence twice as long is not a pause.
"""
_DATA = WORK.index("data")
_SHARED = 0.5
"""Share of the latest rank's data wait above which the median rank's wait means that all wait.

All loaders restart in that case.
"""


class HeldUp(NamedTuple):
    """Time lost in long steps; 0 in all other steps.

    `alone` (steps, phases) is seconds lost to the latest rank in each of `WORK`, in steps where it
    is far later than its stage's median rank. `together` (steps,) is the median rank's data wait in
    seconds, in steps where it is at least a usual step.
    """

    alone: Matrix32
    together: Vector


def held_up(
    work: Cube32, excess: Matrix32, usual: Matrix32, stages: Sequence[IntegerMatrix]
) -> HeldUp:
    """Return the time that steps lose to one rank or to data.

    `work` (phases, steps, ranks) is self time, `excess` (steps, ranks) each rank's work beyond its
    stage's median rank in usual steps, `usual` (steps, ranks) a usual step in seconds, `stages`
    the rank positions (stages, size). Each step is evaluated separately.
    """
    steps = work.shape[1]
    losses = HeldUp(np.zeros((steps, len(WORK)), dtype=np.float32), np.zeros(steps))
    if not stages:
        return losses
    waits = (work[_DATA] >= LEVEL * usual) & (usual > 0)
    is_late = excess >= LEVEL * beyond_median(min(members.shape[1] for members in stages))
    for row in np.flatnonzero((is_late | waits).any(axis=1)).tolist():
        lateness, shared = _latest(work[:, row], excess[row], usual[row], stages)
        middle = max(
            (_waited(work[_DATA, row], usual[row], members) for members in stages), default=0.0
        )
        if lateness is not None and not shared:
            losses.alone[row] = lateness
        losses.together[row] = middle
    return losses


def beyond_median(size: int) -> float:
    """Return the factor from a rank's excess over its peers to that over the stage median.

    In a stage with `size` two, half the excess is in the median itself.
    """
    return 0.5 if size == 2 else 1.0


def _latest(
    work: Matrix32, excess: Values, usual: Values, stages: Sequence[IntegerMatrix]
) -> tuple[Matrix32 | None, bool]:
    """Return the excess work per phase (phases,) on the rank farthest beyond its stage.

    All arrays are for one step. The second value is whether its whole stage waits for data, too.
    """
    rank = int(np.argmax(excess))
    middle = _lower_median(work[:, _stage_of(rank, stages)])
    longer = np.maximum(work[:, rank] - middle, 0.0)
    of_data = int(np.argmax(longer)) == _DATA
    least = LEVEL if of_data else LEVEL_OF_WORK
    if not usual[rank] > 0 or longer.sum() < least * usual[rank]:
        return None, False
    return longer, of_data and bool(middle[_DATA] >= _SHARED * work[_DATA, rank])


def _stage_of(rank: int, stages: Sequence[IntegerMatrix]) -> Integers:
    """Return all rank positions in the stage of `rank`."""
    for members in stages:
        row = np.flatnonzero((members == rank).any(axis=1))
        if len(row):
            return np.asarray(members[row[0]])
    return np.array([rank])


def _waited(data: Values, usual: Values, members: IntegerMatrix) -> float:
    """Return the longest data wait of any stage's median rank, seconds.

    `members` has shape (stages, size). A wait below a usual step counts as 0.
    """
    middle = _lower_median(data[members])
    long: Mask = (middle >= LEVEL * usual[members[:, 0]]) & (middle > 0)
    return float(middle[long].max(initial=0.0))


def _lower_median(values: Matrix32) -> Values:
    """Return the median over the last axis, the lower middle value for an even number.

    With two ranks, one that waits alone must not count as both.
    """
    middle = (values.shape[-1] - 1) // 2
    return np.asarray(np.partition(values, middle, axis=-1)[..., middle])
