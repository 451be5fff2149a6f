"""The newest changes of metrics that stay the same over many steps, rank by rank.

A loss scale, an epoch and a data shard are read by rank, with the step of their last change. Curves
mix the ranks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Integers, Vector

HELD_CHANGES = 4
"""Changes by rank and metric, the newest: 192 bytes a rank, so 3 MB for 16,384 ranks."""
RANK_METRICS = ("loss_scale", "epoch", "shard")
"""Names; frameworks write a path before `loss_scale`."""

_Steps = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]
_Values = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]


class HeldValues(NamedTuple):
    """One metric in one step, by rank (ranks,).

    `value` has held since the step `since`, `previous` held before; NaN and -1 are unknown.
    """

    value: Vector
    since: Integers
    previous: Vector


class RankValues:
    """The newest `HELD_CHANGES` changes of each of `RANK_METRICS`."""

    def __init__(self) -> None:
        self._steps: _Steps = np.full((len(RANK_METRICS), 0, HELD_CHANGES), -1, dtype=np.int64)
        self._values: _Values = np.full((len(RANK_METRICS), 0, HELD_CHANGES), np.nan)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._steps.nbytes + self._values.nbytes

    def add(self, places: Integers, ranks: Integers, steps: Integers, values: Vector) -> None:
        """Add values in the order of their arrival; `places` are indices in `RANK_METRICS`.

        Worked example for one rank and metric: the values 1, 1, 2, 2 in steps 4, 5, 6, 7 are the
        changes to 1 in step 4 and to 2 in step 6.
        """
        known = np.isfinite(values)
        if not known.any():
            return
        places, ranks, steps, values = places[known], ranks[known], steps[known], values[known]
        self._make_room(int(ranks.max()) + 1)
        slots = places * self._steps.shape[1] + ranks
        order = np.argsort(slots, kind="stable")
        slots, steps, values = slots[order], steps[order], values[order]
        flat_steps = self._steps.reshape(-1, HELD_CHANGES)
        flat_values = self._values.reshape(-1, HELD_CHANGES)
        is_first = np.diff(slots, prepend=-1) > 0
        before = np.roll(values, 1)
        before[is_first] = flat_values[slots[is_first], -1]
        changed = values != before
        slots, steps, values = slots[changed], steps[changed], values[changed]
        numbers = np.arange(len(slots)) - np.searchsorted(slots, slots)
        for number in range(int(numbers.max(initial=-1)) + 1):
            chosen = numbers == number
            slot = slots[chosen]
            flat_steps[slot, :-1], flat_values[slot, :-1] = (
                flat_steps[slot, 1:],
                flat_values[slot, 1:],
            )
            flat_steps[slot, -1], flat_values[slot, -1] = steps[chosen], values[chosen]

    def _make_room(self, ranks: int) -> None:
        more = ranks - self._steps.shape[1]
        if more > 0:
            widths = ((0, 0), (0, more), (0, 0))
            self._steps = np.pad(self._steps, widths, constant_values=-1)
            self._values = np.pad(self._values, widths, constant_values=np.nan)

    def held(self, name: str, step: int) -> HeldValues:
        """Return the values of one of `RANK_METRICS` in a step."""
        place = RANK_METRICS.index(name)
        steps, values = self._steps[place], self._values[place]
        is_past = (steps >= 0) & (steps <= step)
        newest = HELD_CHANGES - 1 - np.argmax(is_past[:, ::-1], axis=1)
        ranks, has_any = np.arange(len(steps)), is_past.any(axis=1)
        earlier = np.maximum(newest - 1, 0)
        return HeldValues(
            np.where(has_any, values[ranks, newest], np.nan),
            np.where(has_any, steps[ranks, newest], -1),
            np.where(has_any & (newest > 0), values[ranks, earlier], np.nan),
        )


def rank_metric(name: str) -> int:
    """Return a metric's index in `RANK_METRICS`, -1 if it is none."""
    tail = name.rpartition("/")[2]
    wanted = tail if tail == "loss_scale" else name
    return RANK_METRICS.index(wanted) if wanted in RANK_METRICS else -1
