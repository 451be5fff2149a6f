"""SLI slices: good and total device-seconds per slice of time, with coverage and cumulative sums.

Any window of an SLI is the difference of two cumulative sums. A slice has a version: work since the
last checkpoint turns bad when an attempt resumes before it, so slices change after the fact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice
from stepwatch.signals.arrays import Vector


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
    nothing = [
        Slice(
            start_s=start,
            version=1,
            good=0.0,
            total=0.0,
            observed=0,
            expected=0,
            cumulative_good=0.0,
            cumulative_total=0.0,
        )
        for start in emptied
    ]
    result, good, total = [], 0.0, 0.0
    for part in sorted([*new, *nothing]):
        if part.start_s in emptied:
            part = part._replace(cumulative_good=good, cumulative_total=total)
        good, total = part.cumulative_good, part.cumulative_total
        result.append(part)
    return result


def slices_of(sli: Sli, attempts: Sequence[AttemptSteps]) -> list[Slice]:
    """The slices of all attempts of a job, each of version 1, in the order of time."""
    steps = [attempt.steps for attempt in attempts if len(attempt.steps.end_s)]
    if not steps:
        return []
    shares = [sli.good_and_total(attempt) for attempt in attempts if len(attempt.steps.end_s)]
    ends = np.concatenate([each.end_s for each in steps])
    starts, where = np.unique((ends // SLICE_SECONDS).astype(np.int64), return_inverse=True)
    expected = np.concatenate([np.full(len(each.end_s), each.world) for each in steps])
    observed = np.concatenate([each.observed for each in steps])

    def summed(parts: list[Vector]) -> Vector:
        sums = np.bincount(where, weights=np.concatenate(parts), minlength=len(starts))
        return sums.astype(np.float64)

    good_sums = summed([good for good, _ in shares])
    total_sums = summed([total for _, total in shares])
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
