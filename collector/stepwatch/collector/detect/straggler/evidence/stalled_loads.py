"""Ranks whose batches came late again and again, while those of no peer ever did.

How long a rank computes varies with its sequences and with its host, so long steps that are few may
have hit one rank by chance (`rare`). A batch that takes longer than a whole step was waited for:
whether that is chance is no question, only whether it is this rank's loader alone, and what it
costs.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import Matrix, SmallIntegers, Vector

_LEVEL = LEVELS.index(1.0)
_DATA = WORK.index("data")


def log_alone(course: Course, long: LongSteps, stage: SmallIntegers, limits: Thresholds) -> Vector:
    """Logarithm of one over the chance that so many late batches all hit this rank (ranks,), 0
    where they are too few, or a peer of its `stage` (ranks,) ever had such a step.

    Five of two ranks: each hits one of them with a chance of a half, so 5 * log(2).
    """
    ranks = len(stage)
    found = np.zeros(ranks)
    begun, seen = course.begun[:, _LEVEL, :ranks], course.seen[:, :ranks].astype(np.float64)
    counts, ever = begun.sum(axis=0, dtype=np.int64), long.totals[_LEVEL, :ranks]
    place = np.unique(stage, return_inverse=True)[1]
    of_stage = np.bincount(place, weights=ever)[place]
    # At most one rank of a stage, however many ranks have long steps.
    for rank in np.flatnonzero((counts >= limits.fewest_stalls) & (of_stage == ever)).tolist():
        peers = np.flatnonzero((place == place[rank]) & (np.arange(ranks) != rank))
        if not len(peers):
            continue
        excess = course.work[:, :, rank] - np.median(course.work[:, :, peers], axis=-1)
        if _of_data(excess) >= limits.stalls_of_data:
            # A peer that was observed for half of the time would have had half of them.
            others = seen[:, peers].sum(axis=1) / np.maximum(seen[:, rank], 1.0)
            found[rank] = float(begun[:, rank] @ np.log1p(others))
    return np.where(found >= limits.least_log_stalls, found, 0.0)


def lost_to_stalls(course: Course, rank: int, net: Vector) -> float:
    """Share of the time since the first late batch that the job lost to a rank, given the `net`
    seconds (buckets,); the first one only says when that was.

    Four of eight seconds in 100 s: three of them, 24 %. Where only newer ones counted, the shares
    of those that came close together would be large.
    """
    begun = course.begun[:, _LEVEL, rank]
    first, count = int(np.argmax(begun > 0)), int(begun.sum(dtype=np.int64))
    lost = float(net[first:].sum() / max(float(course.seconds[first:].sum()), 1e-9))
    return lost * (count - 1) / max(count, 1)


def _of_data(excess: Matrix) -> float:
    """Which share of what a rank works longer than its peers, `excess` (buckets, phases), is data.

    What sequences differ by goes both ways, and is nearly nothing in sum.
    """
    more = np.maximum(excess.sum(axis=0, dtype=np.float64), 0.0)
    return float(more[_DATA] / max(float(more.sum()), 1e-9))
