"""What each rank's self time is compared with: the other ranks of its stage, or its baseline."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.state.trackers.steps.step_window import MAX_STAGES
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
"""Up to this many ranks in a stage, a rank's self time is left out of what it is compared with."""


class Peers(NamedTuple):
    """Ranks by stage: `alone` (ranks,), and per stage size an array (stages, size) of ranks."""

    single_ranks: Integers
    together: tuple[IntegerMatrix, ...]


def peers_of(stage: SmallIntegers) -> Peers | None:
    """Who shares a stage; None with more stages than a pipeline has: then nothing is known.

    Not to be written to: stages stay as they are, so who asks again is given the same.
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
    """For each (step, rank) the median of the other ranks of its stage.

    A rank without such peers is compared with `baseline` (ranks,), its own seconds, times what
    the ranks together have slowed down by: a whole job that slows down has no straggler.
    """
    reference = np.empty_like(self_seconds)
    for members in peers.together:
        if (
            members.shape == (1, self_seconds.shape[1]) and self_seconds.shape[1] > FEW
        ):  # one stage of all ranks
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
    """For each element of the last axis the median of the others on it."""
    ordered = np.sort(values, axis=2)
    count = values.shape[2] - 1
    low, high = (count - 1) // 2, count // 2
    medians: FloatCube = (
        without_each(values, ordered, low) + without_each(values, ordered, high)
    ) / 2
    return medians


def without_each(values: Values, ordered: Values, index: int) -> Values:
    """Element `index` of the ordered others of each value on the last axis, of which none is NaN.

    `ordered` are the values, sorted along it: what stands behind the value moves up by one. Values
    3, 1, 2 and the first of the others -> 1, 2, 1.
    """
    element, successor = ordered[..., index : index + 1], ordered[..., index + 1 : index + 2]
    return np.asarray(np.where(values <= element, successor, element))


def _shared_slowdown(self_seconds: FloatMatrix, baseline: Vector) -> FloatMatrix:
    """For each (step, rank) how much longer the least slowed half of the others works than its
    baseline.

    At least 1: ranks that work less than their baseline make no other rank slow.
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
