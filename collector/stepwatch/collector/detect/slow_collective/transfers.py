"""The transfers of operations in each step, their baseline, and where they are slow.

If members are late in turns, the transfer is overestimated (see `collectives`): all members then
work longer, too, and that excess is subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.slow_collective.thresholds import Thresholds
from stepwatch.collector.state.collective_timing import Waits
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective
from stepwatch.signals.arrays import Floats, Integers, Mask, MaskMatrix, Matrix, Vector

Key = tuple[int, int]
"""A group and an operation, by their numbers."""


class Steps(NamedTuple):
    """The evaluated steps, in rising order, and each rank's excess work over its baseline.

    `seconds` (steps,) are the durations. `more_work` (steps, ranks) is the excess over the run's
    first steps in seconds, NaN where unknown. `slowdown` (steps,) is the factor by which most ranks
    work longer, at least 1: on a busy host transfers take longer, too.
    """

    numbers: Integers
    seconds: Vector
    slowdown: Vector
    more_work: Matrix


class Transfers(NamedTuple):
    """Operations by step: planes (keys, steps) of seconds and bytes, NaN where unknown.

    `expected` is the baseline for these bytes and calls; `keys` names (group, op).
    """

    keys: list[Key]
    seconds: Matrix
    expected: Matrix
    more_work: Matrix
    bytes: Matrix


def transfers(waits: Waits, baseline: Mapping[Key, BaselineCollective], steps: Steps) -> Transfers:
    """Return the operations in `steps`, with their baseline."""
    heads, seconds = waits.rows[waits.first], waits.transfer[waits.first]
    numbers = heads["group"].astype(np.int64) << 16 | heads["op"]
    names, key = np.unique(numbers, return_inverse=True)
    keys = [(name >> 16, name & 0xFFFF) for name in names.tolist()]
    usual = np.array([baseline.get(pair, NOTHING) for pair in keys], dtype=np.float64)[key]
    step = np.searchsorted(steps.numbers, heads["step"])
    inside = step < len(steps.numbers)
    inside[inside] &= steps.numbers[step[inside]] == heads["step"][inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.maximum(heads["bytes"] / usual[:, 1], heads["count"] / usual[:, 2])
    expected = usual[:, 0] * np.fmax(1.0, grown)

    def plane(values: Floats) -> Matrix:
        filled = np.full((len(keys), len(steps.numbers)), np.nan)
        filled[key[inside], step[inside]] = values[inside]
        return filled

    work = _more_work(waits, steps, step, inside)
    return Transfers(keys, plane(seconds), plane(expected), plane(work), plane(heads["bytes"]))


NOTHING = BaselineCollective(float("nan"), float("nan"), float("nan"))


def _more_work(waits: Waits, steps: Steps, step: Integers, inside: Mask) -> Vector:
    """Return per (group, op, step) the most that lateness in turns adds to the least wait.

    The member with the largest excess work waits only for the others, each of which may be the last
    in one call. With four members that work 1, 1, 0, 0 s longer, in two calls or more, the result
    is 1 s. If only one does, the result is 0: all others wait for it.
    """
    if not len(waits.first):
        return np.zeros(0)
    rows = waits.rows
    of_row = np.where(inside, step, 0)[waits.cell]
    more = np.where(inside[waits.cell], steps.more_work[of_row, rows["rank"]], np.nan)
    more = np.maximum(more, 0.0)
    most = np.maximum.reduceat(more, waits.first)
    members = np.diff(np.append(waits.first, len(rows)))
    turns = np.minimum(members, rows["count"][waits.first]) - 1
    return np.asarray(np.minimum(np.add.reduceat(more, waits.first) - most, turns * most))


def is_slow(moved: Transfers, steps: Steps, limits: Thresholds) -> MaskMatrix:
    """Return where (key, step) a transfer takes longer by enough to matter; unknown is not slow."""
    expected = moved.expected * steps.slowdown
    excess = moved.seconds - expected
    with np.errstate(invalid="ignore"):
        clear = (moved.seconds >= limits.least_ratio * expected) & (
            excess >= limits.least_excess_ratio * steps.seconds
        )
        certain = (moved.seconds >= limits.certain_ratio * expected) & (
            excess >= limits.certain_excess_ratio * steps.seconds
        )
        return np.asarray((clear | certain) & (excess >= moved.more_work))
