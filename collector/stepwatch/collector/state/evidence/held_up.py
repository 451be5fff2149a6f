"""What a job loses to steps that are far longer than usual: to one rank, or to data of all ranks.

Which rank it was makes no difference here: a loss that moves from rank to rank is in no evidence on
any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.bets import Values
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import (
    Cube32,
    IntegerMatrix,
    Integers,
    Mask,
    Matrix32,
    Vector,
)

LEVEL, LEVEL_OF_WORK = 1.0, 2.0
"""A step counts where a rank waits for data, or the median rank of a stage does, so many usual
steps longer; where a rank works longer, by more: sequences that are twice as long are no pauses."""
_DATA = WORK.index("data")
_SHARED = 0.5
"""Where the median rank waits for data for so much of what the latest one does, all do: their
loaders begin anew."""


class HeldUp(NamedTuple):
    """Seconds lost to the latest rank in each of `WORK` (steps, phases), in steps of which it is
    far later than the median rank of its stage; seconds that the median rank waited for data
    (steps,), in steps where it did so for a usual step and longer. 0 in all others."""

    alone: Matrix32
    together: Vector


def held_up(
    work: Cube32, excess: Matrix32, usual: Matrix32, stages: Sequence[IntegerMatrix]
) -> HeldUp:
    """What steps lose that way.

    `work` (phases, steps, ranks) is self time, `excess` (steps, ranks) how many usual steps each
    rank worked beyond the median rank of its stage, `usual` (steps, ranks) the seconds of such a
    step, `stages` the places of ranks (stages, size). Each step is taken by itself.
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
    """The share of what a rank works longer than its peers by which it is beyond the median of a
    stage of that `size`: of two ranks it is half of the median itself."""
    return 0.5 if size == 2 else 1.0


def _latest(
    work: Matrix32, excess: Values, usual: Values, stages: Sequence[IntegerMatrix]
) -> tuple[Matrix32 | None, bool]:
    """By how much the rank that is farthest beyond its stage works longer in each phase (phases,),
    as of one step, and whether all of its stage wait for data beside it."""
    rank = int(np.argmax(excess))
    middle = _lower_median(work[:, _stage_of(rank, stages)])
    longer = np.maximum(work[:, rank] - middle, 0.0)
    of_data = int(np.argmax(longer)) == _DATA
    least = LEVEL if of_data else LEVEL_OF_WORK
    if not usual[rank] > 0 or longer.sum() < least * usual[rank]:
        return None, False
    return longer, of_data and bool(middle[_DATA] >= _SHARED * work[_DATA, rank])


def _stage_of(rank: int, stages: Sequence[IntegerMatrix]) -> Integers:
    """The places of all ranks of the stage of `rank`."""
    for members in stages:
        row = np.flatnonzero((members == rank).any(axis=1))
        if len(row):
            return np.asarray(members[row[0]])
    return np.array([rank])


def _waited(data: Values, usual: Values, members: IntegerMatrix) -> float:
    """Seconds that the median rank of a stage waited for data, the longest of `members` (stages,
    size); 0 where that is less than a usual step."""
    middle = _lower_median(data[members])
    long: Mask = (middle >= LEVEL * usual[members[:, 0]]) & (middle > 0)
    return float(middle[long].max(initial=0.0))


def _lower_median(values: Matrix32) -> Values:
    """The median of the last axis, of an even number the smaller of the two in the middle: of two
    ranks one that waits alone is not both."""
    middle = (values.shape[-1] - 1) // 2
    return np.asarray(np.partition(values, middle, axis=-1)[..., middle])
