"""The reference for each rank's self time: the other ranks in its stage, or its baseline."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.step_window import MAX_STAGES
from stepwatch.signals.arrays import (
    FloatCube,
    FloatMatrix,
    IntegerMatrix,
    Integers,
    SmallIntegers,
    Vector,
)

Values = np.ndarray[Any, np.dtype[np.floating]]
"""Any number of axes."""
FEW = 8
"""In a stage with up to this many ranks, a rank's own time is excluded from its reference."""


class Peers(NamedTuple):
    """Ranks by stage: those alone (ranks,), and per stage size an array (stages, size) of ranks."""

    single_ranks: Integers
    together: tuple[IntegerMatrix, ...]


def peers_of(stage: SmallIntegers) -> Peers | None:
    """Return the ranks that share a stage; None with more stages than a pipeline can have.

    Callers must not write to the result: it is cached, as stages never change.
    """
    return _peers_of(stage.tobytes(), stage.dtype.str)


@lru_cache(maxsize=64)
def _peers_of(stages: bytes, dtype: str) -> Peers | None:
    stage = np.frombuffer(stages, dtype=np.dtype(dtype))
    order = np.argsort(stage, kind="stable")
    _, starts, counts = np.unique(stage[order], return_index=True, return_counts=True)
    if len(starts) > MAX_STAGES:
        return None
    members = {
        int(size): order[starts[counts == size][:, None] + np.arange(size)]
        for size in np.unique(counts)
    }
    single_ranks = members.pop(1, np.zeros((0, 1), dtype=np.int64))[:, 0]
    return Peers(single_ranks, tuple(members.values()))


def peer_seconds(self_seconds: FloatMatrix, peers: Peers, baseline: Vector) -> FloatMatrix:
    """Return for each (step, rank) the median of the other ranks in its stage.

    A rank without peers is compared with `baseline` (ranks,), its own seconds, times the joint
    slowdown of all ranks: a job that slows down as a whole has no straggler.
    """
    reference = np.empty_like(self_seconds)
    for members in peers.together:
        if (
            members.shape == (1, self_seconds.shape[1]) and self_seconds.shape[1] > FEW
        ):  # one stage with all ranks
            return np.broadcast_to(
                np.median(self_seconds, axis=1, keepdims=True), self_seconds.shape
            )
        values = self_seconds[:, members]
        small = members.shape[1] <= FEW
        usual = median_of_others(values) if small else np.median(values, axis=2, keepdims=True)
        reference[:, members] = usual
    if len(peers.single_ranks):
        reference[:, peers.single_ranks] = (
            baseline[peers.single_ranks]
            * _shared_slowdown(self_seconds, baseline)[:, peers.single_ranks]
        )
    return reference


def median_of_others(values: FloatCube) -> FloatCube:
    """Return for each element on the last axis the median of the others on it."""
    ordered = np.sort(values, axis=2)
    count = values.shape[2] - 1
    low, high = (count - 1) // 2, count // 2
    medians: FloatCube = (
        without_each(values, ordered, low) + without_each(values, ordered, high)
    ) / 2
    return medians


def without_each(values: Values, ordered: Values, index: int) -> Values:
    """Return element `index` of the ordered others for each value on the last axis, without NaN.

    `ordered` are the values, sorted along that axis: elements behind the value move up by one.
    Values 3, 1, 2 and the first of the others -> 1, 2, 1.
    """
    element, successor = ordered[..., index : index + 1], ordered[..., index + 1 : index + 2]
    return np.asarray(np.where(values <= element, successor, element))


def _shared_slowdown(self_seconds: FloatMatrix, baseline: Vector) -> FloatMatrix:
    """Return for each (step, rank) the slowdown of the least slowed half of the other ranks.

    The slowdown is relative to their baseline and at least 1: ranks that work less than their
    baseline make no other rank slow.
    """
    with_baseline = np.flatnonzero(baseline > 0)
    shared = np.ones_like(self_seconds)
    if not len(with_baseline):
        return shared
    ratios = self_seconds[:, with_baseline] / baseline[with_baseline]
    ordered = np.sort(ratios, axis=1)
    shared[:] = ordered[:, (len(with_baseline) - 1) // 2][:, None]
    if len(with_baseline) == 1:
        shared[:, with_baseline] = 1.0
    else:
        shared[:, with_baseline] = without_each(ratios, ordered, (len(with_baseline) - 2) // 2)
    return np.asarray(np.maximum(shared, 1.0))
