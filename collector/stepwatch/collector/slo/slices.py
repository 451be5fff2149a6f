"""SLI slices: good and total device-seconds per slice of time, with coverage and running sums.

Any window of an SLI is the difference of two running sums. A slice has a version: work since the
last checkpoint turns bad when an attempt resumes before it, so slices change after the fact.

Every slice is the sum over the steps in memory and the dropped steps (`closing`): so a slice may be
closed in parts, and a clock change makes no difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.ladder import LADDER, Rung
from stepwatch.collector.slo.redone import RedoneSteps, is_redone, redoable
from stepwatch.collector.slo.registry import AttemptSteps, Sli, Standing
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.waste import Spent, Tail
from stepwatch.collector.state.job import RunKey
from stepwatch.collector.store.slices import SLICE, Slice, slices_of
from stepwatch.signals.arrays import Integers, Mask, Rows, Vector


class Shares(NamedTuple):
    """Step contributions to the slices in which the steps end; arrays (steps,).

    Unix seconds; good and total device-seconds; received and expected records.
    """

    end_s: Vector
    good: Vector
    total: Vector
    observed: Integers
    expected: Integers

    @classmethod
    def from_steps(cls, sli: Sli, attempt: AttemptSteps) -> Shares:
        """Return the contributions from an attempt's steps."""
        steps = attempt.steps
        expected = np.where(steps.unfinished, steps.observed, steps.expected)
        return cls(steps.end_s, *sli.good_and_total(attempt), steps.observed, expected)

    @classmethod
    def of_standing(cls, tails: Iterable[Tail]) -> Shares:
        """Return the contributions from device-time outside steps, which is all bad.

        Per piece, one record from each device is expected and received: agents report it.
        """
        parts = [(*tail.pieces(), tail.devices) for tail in tails]
        if not parts:
            return _NO_SHARES
        moments = np.concatenate([np.zeros(0), *(moments for moments, _, _ in parts)])
        total = np.concatenate([np.zeros(0), *(seconds for _, seconds, _ in parts)])
        devices = [np.full(len(moments), devices) for moments, _, devices in parts]
        records = np.concatenate([np.zeros(0, dtype=np.int64), *devices])
        return cls(moments, np.zeros(len(moments)), total, records, records)

    def since(self, start_s: float) -> Shares:
        """Return the contributions from steps that end at `start_s` or later."""
        wanted = self.end_s >= start_s
        return self if wanted.all() else self._only(wanted)

    def behind(self, count: int) -> Shares:
        """Return the contributions from all steps after the first `count`."""
        return self._only(slice(count, None))

    def _only(self, selection: slice | Mask) -> Shares:
        return Shares(
            self.end_s[selection],
            self.good[selection],
            self.total[selection],
            self.observed[selection],
            self.expected[selection],
        )


_NO_SHARES = Shares(*(np.zeros(0, kind) for kind in (float, float, float, np.int64, np.int64)))

_Part = tuple[RunKey, bool]
"""A run, and whether the contribution is its time outside steps."""


def counted_tails(sli: Sli, tails: Iterable[Tail]) -> list[Tail]:
    """Return the time outside steps that an SLI counts.

    An evaluation or a save counts with its step.
    """
    stalls = sli.counts is Standing.STALLS
    counted = () if sli.counts is Standing.NONE else tails
    return [
        tail
        for tail in counted
        if (tail.cause is Spent.STALL if stalls else tail.cause not in _WITH_THEIR_STEP)
    ]


_WITH_THEIR_STEP = (Spent.EVALUATION, Spent.CHECKPOINT_STALL)


class RunningSlices:
    """One SLI's slices for a job; only changed slices are summed again.

    Every value equals `summed` over all steps. Changed steps are found by comparing the present
    contributions from the steps in memory with the previous ones.
    """

    def __init__(self, sli: Sli, line: SliceLine | None = None) -> None:
        self.line = line or SliceLine()
        self.sli = sli
        self._redone = RedoneSteps(sli.name)
        self._is_stored = line is not None
        """Whether `line` was loaded from the store, whose writer may have known more steps."""
        self._known: Mapping[_Part, Shares] = {}
        self._newest: Mapping[_Part, Shares] = {}
        self._dropped: Sequence[Shares] = ()
        self._dropped_before_s = -math.inf

    def changed(
        self,
        attempts: Mapping[RunKey, AttemptSteps],
        tails: Mapping[RunKey, Sequence[Tail]] = MappingProxyType({}),
    ) -> list[Slice]:
        """Return the slices that differ from `line`, with increased versions.

        `attempts` are all attempts that made steps, in order, `tails` the runs' time outside steps.
        Call `accept` once they are stored: until then the same slices differ again.
        """
        self._look(attempts, tails)
        moment = min(self._first_change(), self._redone.first_change(attempts))
        if math.isinf(moment):
            return []
        since, shares = float(self.line.starts(np.array([moment]))[0]), [*self._newest.values()]
        if self._is_stored or since < self._dropped_before_s:
            shares += dropped_shares(self.sli.name, attempts)
        if self._is_stored:
            since = self._known_since(shares)
        previous = self.line.slice_before(since)
        fresh = _summed([part.since(since) for part in shares], previous, self.line)
        return _amended(self.line.rows_since(since), fresh, previous)

    def drop(self, dropped: Mapping[RunKey, int]) -> None:
        """Account for each attempt's `dropped` first steps.

        The last `changed` result is accepted.
        """
        self._known = {
            (run, stands): part if stands else part.behind(dropped.get(run, 0))
            for (run, stands), part in self._known.items()
        }

    def coarser(self, changed: Sequence[Slice], ladder: Sequence[Rung] = LADDER) -> list[Slice]:
        """Return coarse slices that replace fine, old ones without a step in memory.

        None while old slices are `changed`.
        """
        ends = (float(part.end_s.min()) for part in self._newest.values() if len(part.end_s))
        before_s = min(self._dropped_before_s, *ends, math.inf)
        if any(part.start_s < before_s for part in changed[:1]):
            return []
        return self.line.coarser(before_s, ladder)

    def accept(self, slices: Sequence[Slice], coarse: Sequence[Slice] = ()) -> None:
        """Apply the stored results from `changed` and `coarser`."""
        self.line.put(slices)
        self.line.join(coarse)
        self._known = self._newest
        self._is_stored = False
        self._redone.accept()

    def _look(
        self, attempts: Mapping[RunKey, AttemptSteps], tails: Mapping[RunKey, Sequence[Tail]]
    ) -> None:
        self._newest = {
            (run, False): Shares.from_steps(self.sli, steps) for run, steps in attempts.items()
        }
        self._newest |= {
            (run, True): Shares.of_standing(counted_tails(self.sli, run_tails))
            for run, run_tails in tails.items()
        }
        closed = (steps.dropped.closed_before_s for steps in attempts.values() if steps.dropped)
        self._dropped_before_s = max(closed, default=-math.inf)

    def _known_since(self, shares: Sequence[Shares]) -> float:
        """Return the start of the first slice with all steps known; -inf if all slices have.

        The log holds the newest days, and slices are kept for ever: earlier slices, and the slice
        with the first known steps, include steps that are no longer known.
        """
        if sum(int(part.expected.sum()) for part in shares) >= self.line.expected:
            return -math.inf
        first = min(float(part.end_s.min()) for part in shares if len(part.end_s))
        start, seconds = self.line.places_of(np.array([first]))
        return float((start + seconds)[0])

    def _first_change(self) -> float:
        """Return the earliest end of a changed step, old or new; infinite without one."""
        numbers = self._known.keys() | self._newest.keys()
        return min(
            (_first_difference(self._known.get(n), self._newest.get(n)) for n in numbers),
            default=math.inf,
        )


def dropped_shares(sli: str, attempts: Mapping[RunKey, AttemptSteps]) -> Iterator[Shares]:
    """Yield the dropped steps' contributions, as if they ended at their slices' starts."""
    for attempt in attempts.values():
        if attempt.dropped is None:
            continue
        sums = attempt.dropped.sums.get(sli)
        if sums is not None:
            yield Shares(
                sums["start_s"].astype(np.float64), *(sums[name] for name in Shares._fields[1:])
            )
        rows, redone = redoable(attempt, sli), is_redone(attempt, sli)
        if len(rows):
            good, nothing = np.where(redone, rows["redone"], rows["kept"]), np.zeros(len(rows))
            counts = nothing.astype(np.int64)
            yield Shares(rows["start_s"].astype(np.float64), good, nothing, counts, counts)


def _first_difference(old: Shares | None, new: Shares | None) -> float:
    """Return the earliest end among the steps from the first difference on.

    Ends 3, 7, 9 and 3, 8, 9: the second step changed, so 7.
    """
    if old is new:
        return math.inf
    sides = [shares for shares in (old, new) if shares is not None]
    index = 0
    if old is not None and new is not None:
        index = count = min(len(old.end_s), len(new.end_s))
        for old_column, new_column in zip(old, new, strict=True):
            earlier, later = old_column[:count], new_column[:count]
            if earlier.tobytes() != later.tobytes():  # rare, and bytes compare in a third
                equal = earlier == later
                index = index if equal.all() else min(index, int(np.argmin(equal)))
    return min(float(shares.end_s[index:].min(initial=math.inf)) for shares in sides)


def _amended(old: Rows, new: Rows, previous: Slice | None) -> list[Slice]:
    """Return the slices in `new` that differ from `old`, with increased versions.

    A slice becomes empty if all its steps moved on, because a late rank ended them later.
    """
    new = _with_emptied(old, new, previous)
    exists = np.zeros(len(new), dtype=np.bool_)
    exists[np.searchsorted(new["start_s"], old["start_s"])] = True
    changed = ~exists
    changed[exists] = _differ(old, new, exists)
    new["version"][exists] = old["version"] + 1
    return slices_of(new[changed])


def _differ(old: Rows, new: Rows, exists: Mask) -> Mask:
    """Return which slices (slices,) differ by more than summation noise from those in `new`.

    `exists` marks the slices in `new` that `old` has, in the same order.
    """
    changed: Mask = np.zeros(len(old), dtype=np.bool_)
    for name in ("observed", "expected"):
        changed |= old[name] != new[name][exists]
    for name in ("good", "total", "cumulative_good", "cumulative_total"):
        old_sums, new_sums = old[name], new[name][exists]
        noise = np.maximum(_NOISE * np.maximum(np.abs(old_sums), np.abs(new_sums)), _NOISE_S)
        changed |= ~(np.abs(old_sums - new_sums) <= noise)
    return changed


_NOISE, _NOISE_S = 1e-12, 1e-6
"""Noise from another summation order: relative, or in device-seconds."""


def _with_emptied(old: Rows, new: Rows, previous: Slice | None) -> Rows:
    """Return `new` with an empty slice for each slice that only `old` has, in time order."""
    if np.array_equal(old["start_s"], new["start_s"][: len(old)]):  # nearly always
        return new
    emptied = old[~np.isin(old["start_s"], new["start_s"])]
    if not len(emptied):
        return new
    nothing = np.zeros(len(emptied), dtype=SLICE)
    nothing["start_s"], nothing["seconds"] = emptied["start_s"], emptied["seconds"]
    nothing["version"] = 1
    merged = np.concatenate([nothing, new])
    order = np.argsort(merged["start_s"], kind="stable")
    merged, is_empty = merged[order], order < len(nothing)
    # Its running sums equal the last non-empty slice's.
    last = np.maximum.accumulate(np.where(is_empty, -1, np.arange(len(merged))))
    for name, base in (
        ("cumulative_good", 0.0 if previous is None else previous.cumulative_good),
        ("cumulative_total", 0.0 if previous is None else previous.cumulative_total),
    ):
        merged[name] = np.where(last < 0, base, merged[name][np.maximum(last, 0)])
    return merged


def summed(
    shares: Sequence[Shares], previous: Slice | None = None, line: SliceLine | None = None
) -> list[Slice]:
    """Return the steps' slices, with version 1, in time order; `previous` is the slice before.

    They have the boundaries in `line`.
    """
    return slices_of(_summed(shares, previous, line))


def _summed(shares: Sequence[Shares], previous: Slice | None, line: SliceLine | None) -> Rows:
    """Return the steps' slices as an array with dtype `SLICE`."""
    parts = [part for part in shares if len(part.end_s)]
    if not parts:
        return np.zeros(0, dtype=SLICE)
    every = Shares(*map(np.concatenate, zip(*parts, strict=True)))
    places, lengths = (line or SliceLine()).places_of(every.end_s)
    starts, first, where = _distinct(places)
    rows = np.zeros(len(starts), dtype=SLICE)
    rows["start_s"], rows["version"], rows["seconds"] = starts, 1, lengths[first]
    for name, column in zip(Shares._fields[1:], every[1:], strict=True):
        rows[name] = np.bincount(where, weights=column, minlength=len(starts))
    for name in ("good", "total"):
        base = 0.0 if previous is None else float(getattr(previous, f"cumulative_{name}"))
        rows[f"cumulative_{name}"] = _running(rows[name], base)
    return rows


def _distinct(places: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the sorted distinct `places`, each one's first index, and each entry's position."""
    if (places[1:] < places[:-1]).any():
        return np.unique(places, return_index=True, return_inverse=True)
    begins = np.append(True, places[1:] != places[:-1])  # nearly always: steps end in order
    first = np.flatnonzero(begins)
    return places[first], first, np.cumsum(begins) - 1


def _running(values: Vector, base: float) -> Vector:
    """Return running sums on top of `base`, in the order for one summation over all."""
    return np.asarray(np.cumsum(np.concatenate([[base], values]))[1:])
