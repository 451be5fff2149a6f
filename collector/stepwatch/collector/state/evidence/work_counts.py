"""Whether counted work (tokens) explains the differences in time, and comparison per work unit.

Within a step, a rank with twice the tokens takes `2 ** exponent` times as long. The exponent is 1
if the whole step computes on tokens, and 0 if counts explain nothing: equal counts, or counts
unrelated to the times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.bets import Values
from stepwatch.collector.state.evidence.cells import picked
from stepwatch.signals.arrays import IntegerMatrix, Mask, MaskMatrix, Matrix32, Vector

KEPT = 0.99
"""Decay factor per step: about the newest hundred steps count."""
LEAST_SHARE = 0.25
"""Least explained share in the time spread; a smaller share may be chance."""
MOST_RATIO = 1000.0
"""Counts in one step that differ by a larger ratio are invalid."""
_LEAST_STEPS = 16


class _Spread(NamedTuple):
    """Spread per step (steps,): log counts and log times about their stage means.

    `counts` and `times` are sums of squares, `product` is the sum of products. `used` marks steps
    with a usable stage, `lies` marks steps with an unusable stage.
    """

    counts: Vector
    times: Vector
    product: Vector
    used: Mask
    lies: Mask


class WorkCounts:
    """Sums over steps: spread and covariance for log counts and log times."""

    def __init__(self) -> None:
        self._steps = self._lies = 0
        self._counts = self._times = self._both = 0.0

    @property
    def explained(self) -> float:
        """Share in the time spread that counts explain."""
        product = self._counts * self._times
        return max(0.0, self._both) ** 2 / product if product > 0 else 0.0

    @property
    def exponent(self) -> float:
        """Growth exponent of times over counts, between 0 and 1."""
        if self._steps < _LEAST_STEPS or self.explained < LEAST_SHARE:
            return 0.0
        return min(max(self._both / self._counts, 0.0), 1.0)

    @property
    def words(self) -> str:
        """Whether ranks are compared per work unit, or the reason why not."""
        if self.exponent:
            return f"compared per token: tokens explain {self.explained:.0%} of the spread"
        if self._lies > self._steps:
            return "tokens ignored: unknown, zero, negative, not finite or a thousand times apart"
        if not self._counts > 0:
            return "tokens ignored: all ranks have as many"
        return "tokens ignored: they do not explain how long ranks take"

    def per_unit(
        self, work: Matrix32, counts: Matrix32, stages: Sequence[IntegerMatrix]
    ) -> Matrix32:
        """Return the work (steps, ranks) scaled to the stage's mean count in the step.

        Scaling uses the exponent from earlier steps; `stages` are ranks (stages, size). Work with
        unusable or equal counts is unchanged. The steps are then added to the sums.
        """
        differ = _differ(counts)
        if not differ.any():
            return work
        scaled_work, rows = work.copy(), np.flatnonzero(differ)
        times, tokens = np.ascontiguousarray(work[rows]), np.ascontiguousarray(counts[rows])
        exponents = self._exponents(_spread(times, tokens, stages))
        for members in stages if exponents.any() else ():
            together, amounts = picked(times, members), picked(tokens, members)
            usable = _usable(together, amounts)
            counted = np.where(usable[..., None], amounts, 1.0).astype(np.float64)
            ratio = counted.mean(axis=-1, keepdims=True) / counted
            scaled = together * ratio ** exponents[:, None, None]
            scaled_work[rows[:, None, None], members] = scaled.astype(np.float32)
        return scaled_work

    def _exponents(self, spread: _Spread) -> Vector:
        """Return the exponent before each step (steps,), and add each step to the sums."""
        exponents = np.zeros(len(spread.used))
        for index, (counts, times, product, used, lies) in enumerate(
            zip(*(column.tolist() for column in spread), strict=True)
        ):
            exponents[index] = self.exponent
            self._lies += lies
            if used:
                self._steps += 1
                self._counts = KEPT * self._counts + counts
                self._times = KEPT * self._times + times
                self._both = KEPT * self._both + product
        return exponents


def _differ(counts: Matrix32) -> Mask:
    """Return the steps (steps,) in which ranks count different amounts of work."""
    least = np.where(counts > 0, counts, np.inf).min(axis=1, initial=np.inf)
    most = np.where(counts > 0, counts, -np.inf).max(axis=1, initial=-np.inf)
    return np.asarray(most > least)


def _spread(work: Matrix32, counts: Matrix32, stages: Sequence[IntegerMatrix]) -> _Spread:
    sums = np.zeros((3, len(work)))
    used, lies = np.zeros(len(work), dtype=np.bool_), np.zeros(len(work), dtype=np.bool_)
    for members in stages:
        times, amounts = picked(work, members), picked(counts, members)
        usable = _usable(times, amounts)
        used |= usable.any(axis=1)
        lies |= ~usable.all(axis=1)
        longer, apart = (_about_mean(values, usable) for values in (times, amounts))
        for total, products in zip(
            sums, (apart * apart, longer * longer, apart * longer), strict=True
        ):
            total += products.sum(axis=-1).sum(axis=-1)
    return _Spread(sums[0], sums[1], sums[2], used, lies)


def _about_mean(values: Values, usable: MaskMatrix) -> Values:
    """Return logs (steps, stages, ranks) minus the stage mean; 0 if not `usable`.

    `usable` has shape (steps, stages).
    """
    logs = np.log(np.where(usable[..., None], values, 1.0).astype(np.float64))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def _usable(work: Values, counts: Values) -> MaskMatrix:
    """Return where (steps, stages) all times and counts in a stage are positive and finite."""
    most, least = counts.max(axis=-1), counts.min(axis=-1)
    with np.errstate(invalid="ignore"):
        fine = (work > 0).all(axis=-1) & (least > 0) & np.isfinite(most)
        return np.asarray(fine & (most < MOST_RATIO * least))
