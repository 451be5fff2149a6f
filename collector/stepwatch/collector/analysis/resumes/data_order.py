"""The order of the data at a resume: whether it continues, or begins again.

A trainer records the data's position in each step as the metrics `sample`, `shard` and `epoch`.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise

import numpy as np

from stepwatch.collector.analysis.resumes.earlier import Resume
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.metrics.buckets import Curve
from stepwatch.collector.state.trackers.metrics.metrics import Metrics

SAMPLE = "sample"
POSITIONS = (SAMPLE, "shard", "epoch")
"""Names of the metrics."""
_Position = dict[str, tuple[int, float, float]]
"""A step's position by metric: number of finite values, least and greatest value."""


class DataOrder(StrEnum):
    """The order of the data after a resume."""

    CONTINUED = "continued"
    RESTARTED = "restarted"
    UNKNOWN = "unknown"


def data_order(resume: Resume) -> DataOrder:
    """Return the order of the data, from the positions before and after a resume.

    The order continues if the run's first positions follow the earlier run's positions. It
    restarted if they equal the job's first positions. An epoch alone cannot show a continuation:
    the samples within the epoch may have begun again.
    """
    after = {step + resume.shift: at for step, at in _first(resume.attempt).items()}
    if not after:
        return DataOrder.UNKNOWN
    follows = next((_follows(after, run) for run, _ in resume.earlier if _newest(run)), None)
    restarts = _restarts(after, resume)
    if follows is False and restarts:
        return DataOrder.RESTARTED
    names = set().union(*after.values())
    if follows and not restarts and names != {"epoch"}:
        return DataOrder.CONTINUED
    return DataOrder.UNKNOWN


def _follows(after: dict[int, _Position], run: Attempt) -> bool | None:
    """Return whether a run's first positions follow an earlier run's; None if unknown.

    An earlier run reads the samples 0, 8, 16 in the steps 0, 1, 2. True: a resume reads sample 8
    in step 1, or sample 24 in step 3. False: a resume reads sample 0 in step 1.
    """
    before = _newest(run)
    same = [step for step in after if step in before and _are_complete(after[step], before[step])]
    if same:
        return all(_are_equal(after[step], before[step]) for step in same)
    first, last = min(after), max(before)
    if first < last:
        return None
    if _are_equal(after[first], before[last]):
        return None if SAMPLE not in after[first] else False
    reads = [before[step][SAMPLE] for step in sorted(before) if SAMPLE in before[step]]
    if first != last + 1 or len(reads) < 2 or SAMPLE not in after[first]:
        return False if _went_back(after[first], before[last]) else None
    strides = {round(later[1] - earlier[1]) for earlier, later in pairwise(reads)}
    stride = round(after[first][SAMPLE][1] - reads[-1][1])
    if stride in strides:
        return True
    return False if _went_back(after[first], before[last]) else None


def _went_back(after: _Position, before: _Position) -> bool:
    """Return whether at least one metric of the position decreased, and none increased."""
    common = after.keys() & before.keys()
    changes = [after[name][1] - before[name][1] for name in common]
    return bool(changes) and max(changes) <= 0 and min(changes) < 0


def _restarts(after: dict[int, _Position], resume: Resume) -> bool:
    """Return whether the positions equal the positions of the job's first steps."""
    begins = _first(resume.oldest)
    if resume.oldest is resume.attempt or not begins:
        return False
    shift = min(after) - min(begins)
    same = [step for step in begins if step + shift in after]
    return bool(same) and all(_are_equal(after[step + shift], begins[step]) for step in same)


def _are_complete(one: _Position, other: _Position) -> bool:
    """Return whether equally many ranks reported both positions."""
    return all(one[name][0] == other[name][0] for name in one.keys() & other.keys())


def _are_equal(one: _Position, other: _Position) -> bool:
    common = one.keys() & other.keys()
    return bool(common) and all(one[name] == other[name] for name in common)


def _first(attempt: Attempt) -> dict[int, _Position]:
    """Return the positions by step in an attempt's first steps."""
    metrics = attempt.tracker(Metrics)
    places = ((name, metrics.names.index(name)) for name in POSITIONS)
    return _by_step({name: metrics.first(at) for name, at in places if at is not None})


def _newest(attempt: Attempt) -> dict[int, _Position]:
    """Return the positions by step in an attempt's newest steps."""
    metrics = attempt.tracker(Metrics)
    places = ((name, metrics.names.index(name)) for name in POSITIONS)
    return _by_step({name: metrics.curves(at)["steps"] for name, at in places if at is not None})


def _by_step(curves: dict[str, Curve]) -> dict[int, _Position]:
    positions: dict[int, _Position] = {}
    for name, curve in curves.items():
        known = np.isfinite(curve.least)
        parts = curve.step, curve.finite, curve.least, curve.greatest
        columns = (column[known].tolist() for column in parts)
        for step, count, least, greatest in zip(*columns, strict=True):
            positions.setdefault(step, {})[name] = count, least, greatest
    return positions
