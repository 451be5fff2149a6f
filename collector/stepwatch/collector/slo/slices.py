"""SLI slices: good and total device-seconds per slice of time, with coverage and cumulative sums.

Any window of an SLI is the difference of two cumulative sums. A slice has a version: work since the
last checkpoint turns bad when an attempt resumes before it, so slices change after the fact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.step_history import StepFacts

SLICE_SECONDS = 10
STEP_TIME = "step-time"
GOODPUT = "goodput"
SLOW_STEP_FACTOR = 2.0
"""A step longer than this many baselines of its attempt is slow (p95 <= 2 x p50 is the mark)."""

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Integers = np.ndarray[tuple[int], np.dtype[np.int64]]


class Slice(NamedTuple):
    """One SLI over `SLICE_SECONDS` from `start_s` (Unix seconds).

    `good` and `total` are device-seconds; `observed` and `expected` count step records.
    """

    start_s: int
    version: int
    good: float
    total: float
    observed: int
    expected: int
    cumulative_good: float
    cumulative_total: float


def step_time_slices(attempts: list[StepFacts], baselines: list[float]) -> list[Slice]:
    """Good: device-seconds in steps no longer than `SLOW_STEP_FACTOR` x the attempt's baseline.

    A baseline of NaN (too few steps yet) makes no step bad.
    """
    good = [
        np.where(~(facts.longest > SLOW_STEP_FACTOR * baseline), facts.busy, 0.0)
        for facts, baseline in zip(attempts, baselines, strict=True)
    ]
    total = [facts.busy for facts in attempts]
    return _slices(attempts, good, total)


def goodput_slices(attempts: list[StepFacts]) -> list[Slice]:
    """Good: device-seconds of work that was preserved. Total: all device-seconds allocated.

    Allocation runs from the start of an attempt to its last step, all ranks included, so start-up,
    stalls and redone steps are all lost goodput. Steps that nobody reported count for neither.
    """
    good, total = [], []
    for facts in attempts:
        starts = np.concatenate([[facts.began_s], facts.end_s[:-1]])
        allocated = np.maximum(facts.end_s - starts, 0.0) * facts.world
        total.append(np.where(facts.observed > 0, allocated, 0.0))
        good.append(np.where(facts.lost, 0.0, np.minimum(facts.busy, total[-1])))
    return _slices(attempts, good, total)


def changed(old: dict[int, Slice], new: list[Slice]) -> list[Slice]:
    """Slices of `new` that differ from `old` (by start), with their versions counted on.

    A slice whose steps have all moved on, because a late rank ended them later, becomes empty.
    """
    result = []
    for part in _with_emptied(old, new):
        before = old.get(part.start_s)
        version = 1 if before is None else before.version
        if before is not None and before == part._replace(version=version):
            continue
        result.append(part._replace(version=version + (before is not None)))
    return result


def _with_emptied(old: dict[int, Slice], new: list[Slice]) -> list[Slice]:
    emptied = old.keys() - {part.start_s for part in new}
    if not emptied:
        return new
    nothing = [Slice(start, 1, 0.0, 0.0, 0, 0, 0.0, 0.0) for start in emptied]
    result, good, total = [], 0.0, 0.0
    for part in sorted([*new, *nothing]):
        if part.start_s in emptied:
            part = part._replace(cumulative_good=good, cumulative_total=total)
        good, total = part.cumulative_good, part.cumulative_total
        result.append(part)
    return result


def _slices(attempts: list[StepFacts], good: list[Floats], total: list[Floats]) -> list[Slice]:
    if not attempts or not sum(len(facts.end_s) for facts in attempts):
        return []
    ends = np.concatenate([facts.end_s for facts in attempts])
    starts, where = np.unique((ends // SLICE_SECONDS).astype(np.int64), return_inverse=True)
    expected = np.concatenate([np.full(len(facts.end_s), facts.world) for facts in attempts])
    observed = np.concatenate([facts.observed for facts in attempts])

    def summed(parts: list[Floats]) -> Floats:
        sums = np.bincount(where, weights=np.concatenate(parts), minlength=len(starts))
        return sums.astype(np.float64)

    good_sums, total_sums = summed(good), summed(total)
    columns = zip(
        (starts * SLICE_SECONDS).tolist(),
        good_sums.tolist(),
        total_sums.tolist(),
        np.bincount(where, weights=observed).astype(int).tolist(),
        np.bincount(where, weights=expected).astype(int).tolist(),
        np.cumsum(good_sums).tolist(),
        np.cumsum(total_sums).tolist(),
        strict=True,
    )
    return [Slice(start, 1, *rest) for start, *rest in columns]
