"""How improbable each rank's long steps are, given its peers' rate of such steps.

Two conditions count, over the newest minutes and at each level of step duration. Do so many long
steps occur at the peers' rate, or at the healthy rate if the peers had none? And may they have hit
this rank rather than a peer by chance? Large and rare excess meets both conditions long before the
bets, which know no usual rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.rare_stages import USUAL_LONG_LOST
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import BUCKETS, Course
from stepwatch.collector.state.evidence.long_steps import LEVELS, LongSteps
from stepwatch.collector.statistics.tails import FEWEST_EVENTS, log_among, log_odds_against_chance
from stepwatch.signals.arrays import (
    Cube8,
    IntegerCube,
    IntegerMatrix,
    Integers,
    Mask,
    Matrix,
    Matrix16,
    Vector,
)

_DAY_SECONDS = 86_400.0
_WINDOWS = (BUCKETS // 4, BUCKETS // 2, BUCKETS)
"""Numbers of newest buckets evaluated."""


def log_rarity(
    course: Course, long: LongSteps, groups: Integers, faulty: Mask, limits: Thresholds
) -> Vector:
    """Return the log odds against each unit's long steps by chance (units,), 0 without any.

    The odds are one over the expected number per day. A unit that chance may have hit is not named.
    `groups` (units,) defines the comparison groups. `faulty` units (units,) are excluded as peers:
    a slow rank must stay visible next to one with more long steps.
    """
    rarities = np.zeros(len(groups))
    most = int(course.begun.sum(axis=0, dtype=np.int64).max(initial=0))
    if not len(course.seconds) or most < FEWEST_EVENTS:  # all buckets hold the most
        return rarities
    steps_a_day = _DAY_SECONDS * float(course.steps.sum()) / max(float(course.seconds.sum()), 1e-9)
    compared = _Compared(groups, faulty)
    always = _Seen(compared, long.steps[None])
    for buckets in _WINDOWS:
        if course.begun[-buckets:].sum(axis=0, dtype=np.int64).max(initial=0) < FEWEST_EVENTS:
            continue
        seen_steps, begun = _parts(course.compared[-buckets:], course.begun[-buckets:])
        lately, steps = _Seen(compared, seen_steps), seen_steps.sum(axis=0)
        for index, level in enumerate(LEVELS):
            counts = begun[:, index].sum(axis=0)
            if int(counts.max(initial=0)) < FEWEST_EVENTS:
                continue
            usual = USUAL_LONG_LOST / level
            peers = lately.peers(begun[:, index], usual)
            among = peers.log_among(counts)
            fewest = min(limits.least_log_among_peers, limits.least_log_alone)
            among[peers.steps == 0] = 0.0
            if not ((counts >= FEWEST_EVENTS) & (among >= fewest)).any():
                continue  # nearly always
            ever = always.peers(long.totals[index][None], usual)
            rate = np.maximum(peers.rate, ever.rate)
            has_usual_rate = (peers.total > 0) | (
                ever.rate * steps >= 1.0
            )  # a job that has them by nature
            rarity = log_odds_against_chance(
                counts,
                among,
                rate,
                steps,
                has_rate=has_usual_rate,
                least=np.where(
                    has_usual_rate, limits.least_log_among_peers, limits.least_log_alone
                ),
                steps_a_day=steps_a_day,
            )
            rarities = np.maximum(rarities, rarity)
    return rarities


def least_log_rarity(units: int, limits: Thresholds) -> float:
    """Return the rarity above which `units` raise at most the allowed false alarms a day.

    It covers all windows and levels together.
    """
    return math.log(max(1.0, units * len(_WINDOWS) * len(LEVELS) / limits.false_alarms_a_day))


def _parts(seen_steps: Matrix16, begun: Cube8) -> tuple[IntegerMatrix, IntegerCube]:
    """Merge buckets in which the same units were seen in about as many steps each.

    `seen_steps` (buckets, units) and `begun` (buckets, levels, units) become (parts, ...). Nearly
    always, all buckets merge into one part. Seen 10 10, 10 9, 10 0, 9 0, 10 4 -> the first two
    merge, the next two merge, and the last one stays alone.
    """
    most = seen_steps.max(axis=1, keepdims=True)
    even = ((seen_steps == 0) | (seen_steps >= _ABOUT_AS_MANY * most)).all(axis=1).tolist()
    rows: defaultdict[bytes | int, list[int]] = defaultdict(list)
    for bucket, row in enumerate(seen_steps > 0):
        rows[row.tobytes() if even[bucket] else bucket].append(bucket)
    seen_in = [seen_steps[buckets].sum(axis=0, dtype=np.int64) for buckets in rows.values()]
    begun_in = [begun[buckets].sum(axis=0, dtype=np.int64) for buckets in rows.values()]
    return np.stack(seen_in), np.stack(begun_in)


_ABOUT_AS_MANY = 0.75


class _Peers(NamedTuple):
    """The healthy peers of each unit, arrays (units,).

    `steps` are the peers' steps, `total` their long steps, and `rate` the rate at which these
    occur. `chance` is the probability that a long step hits the unit without any fault. Worked
    example: two of four ranks were seen in all 100 steps, the others in 50. A long step in the
    first 50 hits each of the four with a probability of a quarter, one in the last 50 each of two
    with a half.
    """

    steps: Integers
    total: Integers
    rate: Vector
    chance: Vector

    def log_among(self, counts: Integers) -> Vector:
        """Return the log odds against so many long steps hitting this unit by chance."""
        # With unequal probabilities, extremes are rarer than at their mean (Hoeffding 1956,
        # https://doi.org/10.1214/aoms/1177728178).
        return log_among(counts, self.total + counts, self.chance)


class _Compared:
    """The comparison groups of units, and the units excluded as peers."""

    def __init__(self, groups: Integers, faulty: Mask) -> None:
        self._places = np.unique(groups, return_inverse=True)[1]
        self._order = np.argsort(self._places, kind="stable")
        self._starts = np.flatnonzero(np.diff(self._places[self._order], prepend=-1))
        self._healthy = ~faulty

    def of_others(self, values: IntegerMatrix) -> IntegerMatrix:
        """Return the sum over each unit's healthy peers for values (parts, units)."""
        healthy = values * self._healthy
        sums = np.add.reduceat(healthy[:, self._order], self._starts, axis=1)
        return np.asarray(sums[:, self._places] - healthy)


class _Seen:
    """How many steps each unit, and its peers, were compared in: `seen_steps` (parts, units)."""

    def __init__(self, compared: _Compared, seen_steps: IntegerMatrix) -> None:
        self._compared, self._of_others = compared, compared.of_others(seen_steps)
        self._steps: Integers = self._of_others.sum(axis=0)
        every = self._of_others + seen_steps
        self._mine: Matrix = np.divide(
            seen_steps, every, out=np.zeros(seen_steps.shape), where=every > 0
        )

    def peers(self, counts: IntegerMatrix, usual: float) -> _Peers:
        """Return the peers for `counts` long steps (parts, units).

        `usual` is the step share in healthy ranks, which counts as one long step.
        """
        long = self._compared.of_others(counts)
        together, peer_counts = long + counts, long.sum(axis=0)
        total = together.sum(axis=0)
        hits = (together * self._mine).sum(axis=0)
        chance = np.divide(hits, total, out=np.ones(len(total)), where=total > 0)
        rate = (peer_counts + 1.0) / (self._steps + 1.0 / usual)
        return _Peers(self._steps, peer_counts, np.minimum(rate, 1.0), np.minimum(chance, 1.0))
