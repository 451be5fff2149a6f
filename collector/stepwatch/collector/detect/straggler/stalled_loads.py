"""Ranks whose batches come late again and again, while their peers' batches hardly ever do.

A rank's compute time varies with its sequences and with its host, so a few long steps may be noise
from both (`rare`). A batch that makes a rank work a usual step longer than its stage's median, or
two steps with two ranks, was waited for: that is no noise, and its cost is lost. The remaining
condition is whether this rank's loader is the only one.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect.steps import loads_data
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.tails import FEWEST_EVENTS, log_among
from stepwatch.signals.arrays import Integers, Matrix, SmallIntegers, Vector

_LEVEL = LEVELS.index(1.0)
_DATA = WORK.index("data")


def log_alone(course: Course, long: LongSteps, stage: SmallIntegers, limits: Thresholds) -> Vector:
    """Return the log odds against so many late batches in a stage hitting one rank (ranks,).

    The result is for this rank, and is 0 if there are too few, or if peers ever had too many.
    Worked example: six of six with two ranks. Each hits one rank with a probability of a half, and
    either rank could be the one, so 6 * log(2) - log(2).
    """
    ranks = len(stage)
    begun, seen_steps = (
        course.begun[:, _LEVEL, :ranks],
        course.compared[:, :ranks].astype(np.float64),
    )
    counts, ever = begun.sum(axis=0, dtype=np.int64), long.totals[_LEVEL, :ranks]
    if counts.max(initial=0) < FEWEST_EVENTS and limits.least_log_stalls > 0:  # nearly always
        return np.zeros(ranks)
    _, place, size = np.unique(stage, return_inverse=True, return_counts=True)
    # As if its whole stage loaded, and had been observed in every step: the maximum possible.
    may_be = log_among(counts, _per_stage(counts, place), 1.0 / size[place])
    may_be[counts < FEWEST_EVENTS] = 0.0
    log_odds_by_rank = np.zeros(ranks)
    for rank in np.flatnonzero(may_be >= limits.least_log_stalls).tolist():
        peers = np.flatnonzero((place == place[rank]) & (np.arange(ranks) != rank))
        data = course.work[:, _DATA, peers].sum(axis=0, dtype=np.float64)
        peers = peers[loads_data(data, float(course.seconds.sum()))]  # the others load for no rank
        if not len(peers):
            continue
        excess = course.work[:, :, rank] - np.median(course.work[:, :, peers], axis=-1)
        if _of_data(excess) < limits.stalls_of_data:
            continue
        # A peer observed for half of the time would have had half of them.
        peers_per_step = seen_steps[:, peers].sum(axis=1) / np.maximum(seen_steps[:, rank], 1.0)
        together = begun[:, rank].astype(np.float64) + begun[:, peers].sum(axis=1, dtype=np.int64)
        chance = together @ (1.0 / (1.0 + peers_per_step)) / together.sum()
        among = log_among(counts[[rank]], np.array([together.sum()]), np.array([chance]))
        log_odds = float(among[0]) - math.log(len(peers) + 1.0)
        had = bool(ever[peers].any())
        least = limits.least_log_among_peers if had else limits.least_log_stalls
        log_odds_by_rank[rank] = log_odds if log_odds >= least else 0.0
    return log_odds_by_rank


def _per_stage(counts: Integers, place: Integers) -> Vector:
    """Return the sum over each rank's stage (ranks,), given its `place` among stages."""
    return np.asarray(np.bincount(place, weights=counts)[place], dtype=np.float64)


def lost_to_stalls(course: Course, rank: int, net: Vector) -> float:
    """Return the job's time share lost to a rank since its first late batch, from `net` (buckets,).

    The first one only dates the start. Worked example: four times eight seconds in 100 s: three of
    them, 24 %. If only newer ones counted, batches close together would give large shares.
    """
    begun = course.begun[:, _LEVEL, rank]
    first, count = int(np.argmax(begun > 0)), int(begun.sum(dtype=np.int64))
    lost = float(net[first:].sum() / max(float(course.seconds[first:].sum()), 1e-9))
    return lost * (count - 1) / max(count, 1)


def _of_data(excess: Matrix) -> float:
    """Return which share of a rank's excess over its peers, `excess` (buckets, phases), is data.

    Differences from sequences go both ways, and nearly cancel in the sum.
    """
    more = np.maximum(excess.sum(axis=0, dtype=np.float64), 0.0)
    return float(more[_DATA] / max(float(more.sum()), 1e-9))
