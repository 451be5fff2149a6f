"""Points of a curve: buckets of values, cut to a range and merged until they are few. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from stepwatch.signals.arrays import Integers, Mask, Vector

from .lengths import round_length

ROUNDED_SECONDS = 0.5e-3
"""By how much an answer rounds a moment: a range of answered moments holds their points."""


class Points(NamedTuple):
    """Buckets in the order of their runs and steps; arrays (points,).

    A bucket covers the steps `first_step` to `step`. `at` is its newest moment and `begin` the
    start of its time, Unix seconds. `seconds` is its length, 0 for a single step. `mean` is
    weighted by `weight`; it, `least` and `greatest` are NaN without a finite value. `last` may be
    any value. `non_finite` counts values.
    """

    attempt: Integers
    first_step: Integers
    step: Integers
    seconds: Integers
    begin: Vector
    at: Vector
    mean: Vector
    least: Vector
    greatest: Vector
    last: Vector
    weight: Vector
    non_finite: Integers

    def chosen(self, selection: Mask | Integers) -> Self:
        """Return the points under a mask, or at positions."""
        columns: Iterator[Any] = (column[selection] for column in self)
        return type(self)(*columns)

    def between(self, from_s: float, to_s: float) -> Self:
        """Return the points with a moment in a range of Unix seconds, both ends included."""
        first_s, last_s = from_s - ROUNDED_SECONDS, to_s + ROUNDED_SECONDS
        return self.chosen((self.at >= first_s) & (self.at <= last_s))

    @classmethod
    def nothing(cls) -> Self:
        """Return no points."""
        whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
        return cls(whole, whole, whole, whole, real, real, real, real, real, real, real, whole)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the points of several parts, one after the other."""
        if not parts:
            return cls.nothing()
        columns: Iterator[Any] = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(*columns)


def finest_first(levels: Sequence[Points]) -> Points:
    """Return one run's points, each part of its time at the finest level that holds it.

    `levels` are the run's points at each level, finest first; coarse buckets begin at multiples of
    their length, which is a multiple of the finer lengths. Steps 7 to 9 by step, and buckets for
    the steps 0 to 4 and 5 to 8: the two buckets, then step 9.
    """
    finest = Points.nothing()
    for level in levels:
        if not len(level.step):
            continue
        if not len(finest.step):
            finest = level
            continue
        older = level.chosen(level.first_step < finest.first_step.min())
        if len(older.step):
            later = np.where(
                finest.seconds == 0,
                finest.first_step > older.step.max(),
                finest.begin >= (older.begin + older.seconds).max(),
            )
            finest = Points.joined([older, finest.chosen(later)])
    return finest.chosen(np.argsort(finest.step, kind="stable"))


def few(points: Points, most: int) -> Points:
    """Return at most `most` points: neighbours in equal lengths of time are merged if needed.

    The lengths are round and begin at their multiples, so that an answer moments later has the same
    buckets. Attempts stay apart unless they are too many. Clocks may be set, so that time runs
    backwards: then neighbours are merged by number.
    """
    count = len(points.step)
    if count <= most:
        return points
    length = round_length((float(points.at.max()) - float(points.at.min())) / max(most - 2, 1))
    spans = np.floor(points.at / length).astype(np.int64)
    for begins in (_changes(spans) | _changes(points.attempt), _changes(spans)):
        if begins.sum() <= most:
            return merged(points, begins)
    return merged(points, _changes(np.arange(count) * most // count))


def _changes(values: Integers) -> Mask:
    return np.append(True, values[1:] != values[:-1])


def merged(points: Points, begins: Mask) -> Points:
    """Return one point for each group of neighbours; `begins` marks the first ones (points,).

    Means 1 and 4 with the weights 2 and 1 are a mean of 2 with the weight 3. NaN is no value.
    """
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(begins)) - 1
    weight = np.where(np.isnan(points.mean), 0.0, points.weight)
    weights = np.add.reduceat(weight, first)
    sums = np.add.reduceat(np.nan_to_num(points.mean) * weight, first)
    begin = np.minimum.reduceat(points.begin, first)
    ends = np.maximum.reduceat(points.begin + points.seconds, first)
    with np.errstate(invalid="ignore"):
        mean = np.where(weights > 0, sums / weights, np.nan)
    return Points(
        attempt=points.attempt[last],
        first_step=np.minimum.reduceat(points.first_step, first),
        step=np.maximum.reduceat(points.step, first),
        seconds=np.where(first == last, points.seconds[last], np.ceil(ends - begin)).astype(
            np.int64
        ),
        begin=begin,
        at=np.maximum.reduceat(points.at, first),
        mean=mean,
        least=np.fmin.reduceat(points.least, first),
        greatest=np.fmax.reduceat(points.greatest, first),
        last=points.last[last],
        weight=weights,
        non_finite=np.add.reduceat(points.non_finite, first),
    )
