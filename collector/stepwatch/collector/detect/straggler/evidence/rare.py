"""How improbable the long steps of each rank are, given how often its peers have such steps.

Two questions, over the newest minutes and at each level of how long a step is. Do so many come at
the rate of the peers, or at that of healthy ranks where the peers have had none? And may those that
came have hit this rank rather than a peer by chance? Large and rare excess is beyond chance by
both long before bets on it, which know no usual rate, are.
"""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.analysis.chance import divergence, log_alarms
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import BUCKETS, Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.signals.arrays import Integers, Mask, Vector

_DAY_SECONDS = 86_400.0
_WINDOWS = (BUCKETS // 4, BUCKETS // 2, BUCKETS)
"""Newest buckets looked at."""
_FEWEST = 3
"""Long steps that are looked at: fewer show nothing."""


def log_rarity(
    course: Course, long: LongSteps, groups: Integers, faulty: Mask, limits: Thresholds
) -> Vector:
    """Logarithm of one over how often a day each unit has such long steps by chance (units,), 0
    where there are none. Nobody is named who may be hit by chance.

    `groups` (units,) says who is compared with whom. Those that are `faulty` (units,) are nobody's
    peers: a rank whose steps are long shows beside another whose steps are long more often.
    """
    found = np.zeros(len(groups))
    most = int(course.begun.sum(axis=0, dtype=np.int64).max(initial=0))
    if not len(course.seconds) or most < _FEWEST:  # in no window there are more than in all
        return found
    steps_a_day = _DAY_SECONDS * float(course.steps.sum()) / max(float(course.seconds.sum()), 1e-9)
    places = np.unique(groups, return_inverse=True)[1]
    for buckets in _WINDOWS:
        steps = int(course.steps[-buckets:].sum())
        begun = course.begun[-buckets:].sum(axis=0, dtype=np.int64)
        for at, level in enumerate(LEVELS):
            counts = begun[at]
            if int(counts.max(initial=0)) < _FEWEST:
                continue
            usual = min(limits.most_usual_long, limits.usual_long_lost / level)
            peers = _of_peers(places, faulty, counts, steps, usual)
            among = peers.log_among(counts)
            fewest = min(limits.least_log_among_peers, limits.least_log_alone)
            if not ((counts >= _FEWEST) & (among >= fewest) & (peers.size > 0)).any():
                continue  # nearly always
            ever = _of_peers(places, faulty, long.totals[at], long.steps, usual)
            rate = np.maximum(peers.rate, ever.rate)
            known = (peers.total > 0) | (ever.rate * steps >= 1.0)  # a job that has them by nature
            least = np.where(known, limits.least_log_among_peers, limits.least_log_alone)
            may_be = (counts >= _FEWEST) & (among >= least) & (peers.size > 0)
            for unit in np.flatnonzero(may_be).tolist():
                rarity = log_alarms(int(counts[unit]), float(rate[unit]), steps, steps_a_day)
                if known[unit]:  # each long step is another chance that all hit the same one
                    come = max(1.0, float(rate[unit]) * steps_a_day)
                    rarity = min(rarity, float(among[unit]) - math.log(come))
                found[unit] = max(found[unit], rarity)
    return found


def least_log_rarity(units: int, limits: Thresholds) -> float:
    """What rarity must exceed, so that `units` raise as many false alarms a day as are allowed, at
    all windows and levels together."""
    return math.log(max(1.0, units * len(_WINDOWS) * len(LEVELS) / limits.false_alarms_a_day))


class _Peers:
    """How many healthy peers each unit has, how many long steps they had, and at which rate such
    steps come: arrays (units,)."""

    def __init__(self, size: Integers, total: Integers, rate: Vector) -> None:
        self.size, self.total, self.rate = size, total, rate

    def log_among(self, counts: Integers) -> Vector:
        """Logarithm of one over the chance that so many of all long steps hit this unit."""
        total = self.total + counts
        share = np.divide(counts, total, out=np.zeros(len(counts)), where=total > 0)
        return total * divergence(share, np.asarray(1.0 / (self.size + 1.0)))


def _of_peers(places: Integers, faulty: Mask, counts: Integers, steps: int, usual: float) -> _Peers:
    """`usual` is the share of steps that healthy ranks have, which counts as one long step."""
    healthy = ~faulty
    size = np.bincount(places, healthy)[places].astype(np.int64) - healthy
    mine = counts * healthy
    total = np.bincount(places, mine)[places].astype(np.int64) - mine
    return _Peers(size, total, np.minimum((total + 1.0) / (steps * size + 1.0 / usual), 1.0))
