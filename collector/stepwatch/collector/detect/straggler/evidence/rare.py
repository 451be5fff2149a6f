"""How improbable the long steps of each rank are, given how often its peers have such steps.

Two questions, over the newest minutes and at each level of how long a step is. Do so many come at
the rate of the peers, or at that of healthy ranks where the peers have had none? And may those that
came have hit this rank rather than a peer by chance? Large and rare excess is beyond chance by
both long before bets on it, which know no usual rate, are.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import BUCKET_SECONDS, BUCKETS, Course
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.signals.arrays import Integers, Mask, Vector

_DAY_SECONDS = 86_400.0
_WINDOWS = (BUCKETS // 4, BUCKETS // 2, BUCKETS)
"""Newest buckets looked at."""


def log_rarity(course: Course, groups: Integers, limits: Thresholds) -> Vector:
    """Logarithm of one over the chance of each unit's long steps (units,), 0 where there are none.

    `groups` (units,) says who is compared with whom. Nobody is named who may be hit by chance.
    """
    found = np.zeros(len(groups))
    for buckets in _WINDOWS:
        steps = int(course.steps[-buckets:].sum())
        begun = course.begun[-buckets:].sum(axis=0, dtype=np.int64)
        for level, counts in zip(LEVELS, begun, strict=True):
            few = int(counts.max(initial=0))
            if few > 1:
                usual = min(limits.most_usual_long, limits.usual_long_lost / level)
                found = np.maximum(found, _of_level(counts, steps, groups, usual, limits))
    return found


def least_log_rarity(units: int, limits: Thresholds) -> float:
    """What rarity must exceed, so that `units` raise as many false alarms a day as are allowed:
    each bucket is another look at each window and level."""
    looks = _DAY_SECONDS / BUCKET_SECONDS * len(_WINDOWS) * len(LEVELS) * units
    return math.log(max(1.0, looks / limits.false_alarms_a_day))


def _of_level(
    counts: Integers, steps: int, groups: Integers, usual: float, limits: Thresholds
) -> Vector:
    """Rarity (units,) of `counts` in so many steps; `usual` is the share of steps that healthy
    ranks have, which counts as one long step of a peer.

    Worked example: two ranks, counts 8 and 0 in 165 steps, usual 0.005. The rate is 1 in 365, so
    0.45 are expected; 8 have a chance of e**-15.7 at most. That one rank has all 8 has e**-5.5.
    """
    places = np.unique(groups, return_inverse=True)[1]
    size, total = np.bincount(places)[places], np.bincount(places, counts)[places]
    others, cells = total - counts, steps * (size - 1)
    rate = (others + 1.0) / (cells + 1.0 / usual)
    rarity = steps * _divergence(np.minimum(counts / max(steps, 1), 1.0), np.minimum(rate, 1.0))
    share = np.divide(counts, total, out=np.zeros(len(counts)), where=total > 0)
    among = total * _divergence(share, 1.0 / size)
    may_be: Mask = (among >= limits.least_log_among_peers) & (size > 1)
    return np.where(may_be, rarity, 0.0)


def _divergence(share: Vector, rate: Vector) -> Vector:
    """Kullback-Leibler divergence of `share` from the `rate` of trials, 0 where it is not more.

    So many times the number of trials is a lower bound on the logarithm of one over the chance of
    such a share or more (Chernoff 1952, https://doi.org/10.1214/aoms/1177729330).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = share * np.log(share / rate)
        misses = (1.0 - share) * np.log((1.0 - share) / (1.0 - rate))
    found = np.nan_to_num(hits) + np.nan_to_num(misses)
    return np.where(share > rate, found, 0.0)
