"""Ranks whose batches come late again and again, while those of their peers hardly ever do.

How long a rank computes varies with its sequences and with its host, so long steps that are few may
be noise of both (`rare`). A batch for which a rank works a usual step longer than the median of its
stage, of two ranks two steps, was waited for: that is no noise, and what it costs is lost. Left to
ask is only whether it is the loader of this rank alone.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.analysis.chance import log_among
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.collector.state.trackers.steps.step_window import WORK
from stepwatch.signals.arrays import Integers, Mask, Matrix, SmallIntegers, Vector

_LEVEL = LEVELS.index(1.0)
_DATA = WORK.index("data")


def log_alone(course: Course, long: LongSteps, stage: SmallIntegers, limits: Thresholds) -> Vector:
    """Logarithm of one over the chance that so many of the late batches of a stage hit one rank,
    here this one (ranks,); 0 where they are too few, or peers ever had too many of them.

    Six of six, of two ranks: each hits one of them with a chance of a half, and one of two ranks
    has them, so 6 * log(2) - log(2).
    """
    ranks = len(stage)
    begun, seen_steps = course.begun[:, _LEVEL, :ranks], course.seen[:, :ranks].astype(np.float64)
    counts, ever = begun.sum(axis=0, dtype=np.int64), long.totals[_LEVEL, :ranks]
    _, place, size = np.unique(stage, return_inverse=True, return_counts=True)
    # As if all of its stage loaded, and had been observed in every step: the most that can be.
    may_be = log_among(counts, _per_stage(counts, place), 1.0 / size[place])
    may_be[counts < limits.fewest_stalls] = 0.0
    log_odds_by_rank = np.zeros(ranks)
    for rank in np.flatnonzero(may_be >= limits.least_log_stalls).tolist():
        peers = np.flatnonzero((place == place[rank]) & (np.arange(ranks) != rank))
        peers = peers[_loads(course, peers, limits)]
        if not len(peers):
            continue
        excess = course.work[:, :, rank] - np.median(course.work[:, :, peers], axis=-1)
        if _of_data(excess) < limits.stalls_of_data:
            continue
        # A peer that was observed for half of the time would have had half of them.
        peers_per_step = seen_steps[:, peers].sum(axis=1) / np.maximum(seen_steps[:, rank], 1.0)
        together = begun[:, rank].astype(np.float64) + begun[:, peers].sum(axis=1, dtype=np.int64)
        chance = together @ (1.0 / (1.0 + peers_per_step)) / together.sum()
        among = log_among(counts[[rank]], np.array([together.sum()]), np.array([chance]))
        log_odds = float(among[0]) - math.log(len(peers) + 1.0)
        had = bool(ever[peers].any())
        least = limits.least_log_among_peers if had else limits.least_log_stalls
        log_odds_by_rank[rank] = log_odds if log_odds >= least else 0.0
    return log_odds_by_rank


def _loads(course: Course, ranks: Integers, limits: Thresholds) -> Mask:
    """Which of `ranks` load batches at all: a rank that does it for the others has no peers."""
    data = course.work[:, _DATA, ranks].sum(axis=0, dtype=np.float64)
    return np.asarray(data >= limits.loader_share * course.seconds.sum())


def _per_stage(counts: Integers, place: Integers) -> Vector:
    """The sum over the stage of each rank (ranks,), given the `place` of that among stages."""
    return np.asarray(np.bincount(place, weights=counts)[place], dtype=np.float64)


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
