"""SLI slices: good and total device-seconds per slice of time, with coverage and cumulative sums.

Any window of an SLI is the difference of two cumulative sums. A slice has a version: work since the
last checkpoint turns bad when an attempt resumes before it, so slices change after the fact.

Slices are open while the steps in them are held, and then closed (`closing`): from then on only a
resume changes them (`redone`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.ladder import LADDER, Rung
from stepwatch.collector.slo.redone import RedoneSteps
from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice
from stepwatch.signals.arrays import Integers, Mask, Vector


class Shares(NamedTuple):
    """What each step of an attempt adds to the slice in which it ends; arrays (steps,).

    Unix seconds; good and total device-seconds; records that came, and that should have.
    """

    end_s: Vector
    good: Vector
    total: Vector
    observed: Integers
    expected: Integers

    @classmethod
    def of(cls, sli: Sli, attempt: AttemptSteps) -> Shares:
        """Those of an attempt's steps."""
        steps = attempt.steps
        expected = np.full(len(steps.end_s), steps.world)
        return cls(steps.end_s, *sli.good_and_total(attempt), steps.observed, expected)

    def since(self, start_s: float) -> Shares:
        """Those of steps that end at `start_s` or later."""
        late = self.end_s >= start_s
        return self if late.all() else self._only(late)

    def behind(self, count: int) -> Shares:
        """Those of all but the first `count` steps."""
        return self._only(slice(count, None))

    def not_before(self, start_s: float) -> Shares:
        """The same; steps that end earlier count as if they ended at `start_s`."""
        if not (self.end_s < start_s).any():
            return self
        return self._replace(end_s=np.maximum(self.end_s, start_s))

    def _only(self, which: slice | Mask) -> Shares:
        return Shares(
            self.end_s[which],
            self.good[which],
            self.total[which],
            self.observed[which],
            self.expected[which],
        )


class RunningSlices:
    """The slices of one SLI of a job, of which only those are summed again that changed.

    Every figure is what `summed` makes of all steps: which steps changed is found by comparing all
    that those held add with what they added before.
    """

    def __init__(self, sli: Sli, line: SliceLine | None = None) -> None:
        self.line = line or SliceLine()
        self.sli = sli
        self.closed_before_s = -math.inf
        """Slices that start before it are closed, Unix seconds."""
        self._redone = RedoneSteps(sli.name)
        self._known: Mapping[int, Shares] = {}
        self._newest: Mapping[int, Shares] = {}

    def changed(self, attempts: Mapping[int, AttemptSteps]) -> list[Slice]:
        """The slices that differ from those in `line`, with their versions counted on.

        `attempts` are all of the job by number, in their order. Call `accept` once they are stored:
        until then the same differ again.
        """
        self._look(attempts)
        redone = self._redone.changed(self.line, attempts, self.closed_before_s)
        since = self._first_change() // SLICE_SECONDS * SLICE_SECONDS
        since = self.closed_before_s if redone else max(since, self.closed_before_s)
        if math.isinf(since):
            return redone
        before = redone[-1] if redone else self.line.before(since)
        fresh = summed([each.since(since) for each in self._newest.values()], before)
        return [*redone, *_amended(self.line.since(since), fresh, before)]

    def unstored(self, attempts: Mapping[int, AttemptSteps]) -> list[Slice]:
        """The slices from the newest one in `line` on: where `line` was stored, and `attempts` are
        being read back, those before it are known. Call `accept` once they are stored."""
        self._look(attempts)
        last = self.line.last
        since = max(self.closed_before_s, -math.inf if last is None else last.start_s)
        before = self.line.before(since)
        fresh = summed([each.since(since) for each in self._newest.values()], before)
        return _amended(self.line.since(since), fresh, before) if fresh else []

    def close(self, dropped: Mapping[int, int], before_s: float) -> None:
        """Close the slices before `before_s`: so many of the first steps of the attempts, by their
        numbers, are in them and are held no longer. What `changed` returned last is accepted."""
        self.closed_before_s = max(self.closed_before_s, before_s)
        self._known = {
            number: each.behind(dropped.get(number, 0)) for number, each in self._known.items()
        }

    def coarser(self, changed: Sequence[Slice], ladder: Sequence[Rung] = LADDER) -> list[Slice]:
        """Slices that take the place of finer, old ones; none while closed ones are `changed`."""
        if any(part.start_s < self.closed_before_s for part in changed[:1]):
            return []
        return self.line.coarser(self.closed_before_s, ladder)

    def accept(self, slices: Sequence[Slice], coarse: Sequence[Slice] = ()) -> None:
        """Take in what `changed` and `coarser` returned: it is stored."""
        self.line.put(slices)
        self.line.join(coarse)
        self._known = self._newest
        self._redone.accept()

    def _look(self, attempts: Mapping[int, AttemptSteps]) -> None:
        closed = (each.dropped.closed_before_s for each in attempts.values() if each.dropped)
        self.closed_before_s = max(self.closed_before_s, *closed, -math.inf)
        self._newest = {
            number: Shares.of(self.sli, each).not_before(self.closed_before_s)
            for number, each in attempts.items()
        }

    def _first_change(self) -> float:
        """When the first of the steps that changed ended, before or now; infinite if none did."""
        numbers = self._known.keys() | self._newest.keys()
        return min(
            (_first_difference(self._known.get(n), self._newest.get(n)) for n in numbers),
            default=math.inf,
        )


def _first_difference(one: Shares | None, other: Shares | None) -> float:
    """The earliest end among the steps from the first on that is not the same in both.

    Ends 3, 7, 9 and 3, 8, 9: the second step changed, so 7.
    """
    sides = [each for each in (one, other) if each is not None]
    at = 0
    if one is not None and other is not None:
        at = count = min(len(one.end_s), len(other.end_s))
        same = np.ones(count, dtype=np.bool_)
        for here, there in zip(one, other, strict=True):
            same &= here[:count] == there[:count]
        at = count if same.all() else int(np.argmin(same))
    return min(float(each.end_s[at:].min(initial=math.inf)) for each in sides)


def _amended(old: Sequence[Slice], new: Sequence[Slice], before: Slice | None) -> list[Slice]:
    """Slices of `new` that differ from `old`, with their versions counted on.

    A slice whose steps have all moved on, because a late rank ended them later, becomes empty.
    """
    known, result = {part.start_s: part for part in old}, []
    for part in _with_emptied(known, new, before):
        earlier = known.get(part.start_s)
        version = 1 if earlier is None else earlier.version
        if earlier is not None and earlier == part._replace(version=version):
            continue
        result.append(part._replace(version=version + (earlier is not None)))
    return result


def _with_emptied(
    known: Mapping[int, Slice], new: Sequence[Slice], before: Slice | None
) -> Sequence[Slice]:
    emptied = known.keys() - {part.start_s for part in new}
    if not emptied:
        return new
    last = _EMPTY if before is None else before
    nothing = [_EMPTY._replace(start_s=start) for start in emptied]
    result = []
    for part in sorted([*new, *nothing]):
        if part.start_s in emptied:
            part = part._replace(
                cumulative_good=last.cumulative_good, cumulative_total=last.cumulative_total
            )
        last = part
        result.append(part)
    return result


_EMPTY = Slice(
    start_s=0,
    version=1,
    good=0.0,
    total=0.0,
    observed=0,
    expected=0,
    cumulative_good=0.0,
    cumulative_total=0.0,
)


def summed(shares: Sequence[Shares], before: Slice | None = None) -> list[Slice]:
    """The slices of steps, each of version 1, in the order of time; `before` is the one ahead."""
    parts = [each for each in shares if len(each.end_s)]
    if not parts:
        return []
    every = Shares(*map(np.concatenate, zip(*parts, strict=True)))
    starts, where = np.unique((every.end_s // SLICE_SECONDS).astype(np.int64), return_inverse=True)
    good, total, observed, expected = (
        np.asarray(np.bincount(where, weights=column, minlength=len(starts)), dtype=np.float64)
        for column in every[1:]
    )
    base = _EMPTY if before is None else before
    columns = zip(
        (starts * SLICE_SECONDS).tolist(),
        good.tolist(),
        total.tolist(),
        observed.astype(int).tolist(),
        expected.astype(int).tolist(),
        _running(good, base.cumulative_good).tolist(),
        _running(total, base.cumulative_total).tolist(),
        strict=True,
    )
    return [Slice(start, 1, *rest) for start, *rest in columns]


def _running(values: Vector, base: float) -> Vector:
    """Sums so far on top of `base`, added in the same order as if all had been summed at once."""
    return np.asarray(np.cumsum(np.concatenate([[base], values]))[1:])
