"""Metric values by step or by time: count, sum, least, greatest and last value in each bucket.

A table holds the buckets with the greatest keys. A key that is among them in the end was among
them all along, and values are added row after row, so the split into calls makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Integers, Mask, Vector

RANK_BITS = 17
"""Low bits of an order that hold the rank; the step is above them."""
_SUM, _LEAST, _GREATEST, _LAST, _TIME = range(5)
_COUNT, _NON_FINITE, _ORDER, _FIRST = range(4)
_EMPTY_FLOATS = np.array([0.0, np.inf, -np.inf, np.nan, -np.inf])[:, None, None]
_EMPTY_COUNTS = np.array([0, 0, -1, np.iinfo(np.int64).max])[:, None, None]

_Cube = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]
_Counts = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]


class Values(NamedTuple):
    """Recorded values, one per rank, step and metric; arrays with equal length.

    `order` puts values in the order of their steps, then ranks. `wall_s` is Unix seconds.
    """

    metric: Integers
    order: Integers
    value: Vector
    wall_s: Vector

    def chosen(self, mask: Mask) -> Values:
        """Return the values under a mask."""
        metric, order, value, wall_s = self
        return Values(metric[mask], order[mask], value[mask], wall_s[mask])

    @classmethod
    def joined(cls, parts: list[Values]) -> Values:
        """Return the values of several parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        columns: Iterator[Any] = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(*columns)


def order_of(steps: Integers, ranks: Integers) -> Integers:
    """Return the order of values by step, then by rank."""
    return np.asarray(steps.astype(np.int64) << RANK_BITS | ranks.astype(np.int64))


class Curve(NamedTuple):
    """One metric's buckets, oldest first; arrays (buckets,), in the metric's unit.

    `first_step` is the oldest and `step` the newest step, `wall_s` the newest moment in Unix
    seconds. `mean`, `least` and `greatest` cover the `finite` values, and are NaN without any;
    `last` may be any value.
    """

    key: Integers
    first_step: Integers
    step: Integers
    wall_s: Vector
    mean: Vector
    least: Vector
    greatest: Vector
    last: Vector
    finite: Integers
    non_finite: Integers

    def until(self, step: float) -> Curve:
        """Return the buckets whose newest step is before `step`."""
        columns: Iterator[Any] = (column[self.step < step] for column in self)
        return Curve(*columns)

    def reversed(self) -> Curve:
        """Return the buckets in reverse order."""
        columns: Iterator[Any] = (column[::-1] for column in self)
        return Curve(*columns)

    @classmethod
    def joined(cls, curves: Sequence[Curve]) -> Curve:
        """Return several curves, one after the other."""
        columns: Iterator[Any] = (np.concatenate(column) for column in zip(*curves, strict=True))
        return cls(*columns)


_MANY, _RUN = 256, 8
"""Values, and values of one bucket in a row on average, from which joining them first is faster."""


def _runs(places: Integers) -> Integers | None:
    """Return where each bucket's values in a row begin; None if joining them is not worth it."""
    if len(places) < _MANY:
        return None
    begins = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    return begins if len(begins) * _RUN <= len(places) else None


def _spread(
    how: np.ufunc, column: Any, places: Integers, values: Any, begins: Integers | None
) -> None:
    """Do `how.at(column, places, values)`, whose result must not depend on the order.

    Places 4 4 4 7 7 and values 1 3 2 5 4, the greatest: 3 at place 4 and 5 at place 7.
    """
    if begins is not None:
        places, values = places[begins], how.reduceat(values, begins)
    how.at(column, places, values)


class Buckets:
    """At most `most` buckets, those with the greatest keys, of several metrics."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.keys = np.zeros(0, dtype=np.int64)
        self._floats: _Cube = np.zeros((5, 0, 0))
        self._counts: _Counts = np.zeros((4, 0, 0), dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._floats.nbytes + self._counts.nbytes

    def copied(self) -> Buckets:
        """Return a table with the same buckets, which later values do not change."""
        copy = Buckets(self.most)
        copy.keys, copy._floats, copy._counts = self.keys, self._floats.copy(), self._counts.copy()
        return copy

    def add(self, values: Values, keys: Integers) -> None:
        """Add values to the buckets `keys`; a bucket older than those in the table is dropped."""
        if not len(keys) or (len(self.keys) == self.most and keys.max() < self.keys[0]):
            return
        merged = self._merged(keys)
        fitting = keys >= merged[0]
        if not fitting.all():
            values, keys = values.chosen(fitting), keys[fitting]
        self._make_room(int(values.metric.max()) + 1, merged)
        places = values.metric * len(self.keys) + np.searchsorted(self.keys, keys)
        floats, counts = self._floats.reshape(5, -1), self._counts.reshape(4, -1)
        begins = _runs(places)
        _spread(np.maximum, counts[_ORDER], places, values.order, begins)
        _spread(np.minimum, counts[_FIRST], places, values.order, begins)
        _spread(np.maximum, floats[_TIME], places, values.wall_s, begins)
        newest = values.order == counts[_ORDER][places]
        floats[_LAST][places[newest]] = values.value[newest]
        finite, numbers = np.isfinite(values.value), values.value
        if not finite.all():
            np.add.at(counts[_NON_FINITE], places[~finite], 1)
            places, numbers = places[finite], numbers[finite]
            begins = _runs(places)
        np.add.at(counts[_COUNT], places, 1)
        np.add.at(floats[_SUM], places, numbers)  # a sum depends on the order
        _spread(np.minimum, floats[_LEAST], places, numbers, begins)
        _spread(np.maximum, floats[_GREATEST], places, numbers, begins)

    def _merged(self, keys: Integers) -> Integers:
        """Return the table's keys once it has buckets for `keys`."""
        places = np.searchsorted(self.keys, keys)
        inside = np.minimum(places, len(self.keys) - 1)
        if len(self.keys) and (self.keys[inside] == keys).all():
            return self.keys
        return np.union1d(self.keys, keys)[-self.most :]

    def _make_room(self, metrics: int, merged: Integers) -> None:
        held = self._floats.shape[1]
        if merged is self.keys and metrics <= held:
            return
        begin = int(np.searchsorted(self.keys, merged[0]))
        kept = self.keys[begin:]
        if begin:  # a metric whose last bucket goes leaves no empty row
            used = np.flatnonzero((self._counts[_ORDER, :, begin:] >= 0).any(axis=1))
            held = int(used.max(initial=-1)) + 1
        shape = max(metrics, held), len(merged)
        floats: _Cube = np.empty((5, *shape))
        counts: _Counts = np.empty((4, *shape), dtype=np.int64)
        targets: slice | Integers = slice(0, len(kept))
        if shape[0] == held and np.array_equal(merged[targets], kept):  # nearly always
            floats[:, :, len(kept) :], counts[:, :, len(kept) :] = _EMPTY_FLOATS, _EMPTY_COUNTS
        else:
            floats[...], counts[...] = _EMPTY_FLOATS, _EMPTY_COUNTS
            targets = np.searchsorted(merged, kept)
        floats[:, :held, targets] = self._floats[:, :held, begin:]
        counts[:, :held, targets] = self._counts[:, :held, begin:]
        self.keys, self._floats, self._counts = merged, floats, counts

    def has(self, metric: int) -> bool:
        """Return whether a bucket holds a value of a metric."""
        return metric < self._counts.shape[1] and bool((self._counts[_ORDER, metric] >= 0).any())

    def curve(self, metric: int) -> Curve:
        """Return one metric's buckets that hold a value."""
        if metric >= self._floats.shape[1]:
            metric, used = 0, np.zeros(len(self.keys), dtype=np.bool_)
        else:
            used = self._counts[_ORDER, metric] >= 0
        floats = self._floats[:, metric : metric + 1, used].reshape(5, -1)
        counts = self._counts[:, metric : metric + 1, used].reshape(4, -1)
        has_finite = counts[_COUNT] > 0
        return Curve(
            self.keys[used],
            counts[_FIRST] >> RANK_BITS,
            counts[_ORDER] >> RANK_BITS,
            floats[_TIME],
            np.where(has_finite, floats[_SUM] / np.maximum(counts[_COUNT], 1), np.nan),
            np.where(has_finite, floats[_LEAST], np.nan),
            np.where(has_finite, floats[_GREATEST], np.nan),
            floats[_LAST],
            counts[_COUNT],
            counts[_NON_FINITE],
        )
