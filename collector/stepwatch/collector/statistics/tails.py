"""Probabilities that an observation is due to chance."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from stepwatch.signals.arrays import Integers, Mask, Vector


@lru_cache(maxsize=4096)
def at_least(count: int, trials: int, rate: float) -> float:
    """Return the binomial tail.

    The probability that `trials` at `rate` give `count` successes or more.
    """
    return sum(
        math.comb(trials, number) * rate**number * (1 - rate) ** (trials - number)
        for number in range(count, trials + 1)
    )


def log_alarms(count: int, rate: float, steps: int, steps_a_day: float) -> float:
    """Return the log of the days per chance occurrence of `count` events in `steps`.

    `rate` is the event probability per step. Each event in a day looks back: did `count - 1` events
    precede it within `steps`? That gives the expected number of alarms a day (Mecke's formula for a
    Poisson process).

    Example: 6 events in 400 one-second steps at a rate of 1 in 2,000. 43 occur a day, and the
    probability of 5 or more with 0.2 expected is 2.3e-6: one alarm in 10,000 days, 9.2.
    """
    return -(math.log(rate * steps_a_day) + _log_tail(count - 1, rate * steps))


def _log_tail(count: int, mean: float) -> float:
    """Return the log of a bound on the Poisson tail at `count`.

    The bound is the tail's first term times a geometric series. The binomial tail is smaller.
    """
    if count <= mean:
        return 0.0
    first = count * math.log(mean) - mean - math.lgamma(count + 1.0)
    return min(0.0, first - math.log1p(-mean / (count + 1.0)))


def divergence(share: Vector, rate: Vector) -> Vector:
    """Return the Kullback-Leibler divergence of `share` from `rate`, 0 unless `share` is larger.

    Times the number of trials, it is a lower bound on the log of one over the probability of at
    least this share (Chernoff 1952, https://doi.org/10.1214/aoms/1177729330).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = share * np.log(share / rate)
        misses = (1.0 - share) * np.log((1.0 - share) / (1.0 - rate))
    divergences = np.where(np.isnan(hits), 0.0, hits) + np.where(np.isnan(misses), 0.0, misses)
    return np.where(share > rate, divergences, 0.0)


def log_among(counts: Integers, total: Integers | Vector, chance: Vector) -> Vector:
    """Return the log of a bound on one over the probability of `counts` or more hits among `total`.

    Each event hits the subject with probability `chance`. The result is 0 without events. All
    arrays have one shape.
    """
    share = np.divide(counts, total, out=np.zeros(len(counts)), where=total > 0)
    return np.asarray(total * divergence(share, chance))


def log_chance(hits: int, steps: int, far_cells: int, cells: int) -> float:
    """Return the log probability that a rank is far above its peers in `hits` of its `steps`.

    The others are far above theirs in `far_cells` of their `cells`, and only those cells show the
    rate. With none in 16, the probability of seven in a row is not 17**-7 but 1/18 * 2/19 * ... *
    7/24.
    """
    draws = np.arange(hits)
    chance = float(np.log((far_cells + 1.0 + draws) / (cells + 2.0 + draws)).sum())
    ways = math.lgamma(steps + 1) - math.lgamma(hits + 1) - math.lgamma(steps - hits + 1)
    return min(0.0, chance + ways)


FEWEST_EVENTS = 3
"""Minimum number of events: fewer show nothing."""


def log_odds_against_chance(
    counts: Integers,
    among: Vector,
    rate: Vector,
    steps: Integers,
    *,
    has_rate: Mask,
    least: Vector,
    steps_a_day: float,
) -> Vector:
    """Return the log odds against each unit's `counts` events in its `steps` by chance.

    Two conditions count. May they have hit this unit rather than a peer by chance? `among` are the
    log odds against that; below `least` the result is 0. Do so many occur at the `rate` of the
    peers? If `has_rate`, that rate was observed, and each event is another chance that all hit the
    same unit. All arrays have one shape; the odds are one over the expected number per day.
    """
    log_odds = np.zeros(len(counts))
    for unit in np.flatnonzero((counts >= FEWEST_EVENTS) & (among >= least)).tolist():
        unit_rate = float(rate[unit])
        odds = log_alarms(int(counts[unit]), unit_rate, int(steps[unit]), steps_a_day)
        if has_rate[unit]:
            odds = min(odds, float(among[unit]) - math.log(max(1.0, unit_rate * steps_a_day)))
        log_odds[unit] = odds
    return log_odds


def log_silence(shows: Mask, tail: float) -> float:
    """Return the log odds against `tail` more buckets without a sign, if what they show lasted.

    `shows` (buckets,) marks the buckets with a sign (Krichevsky, Trofimov 1981).
    """
    often = (int(shows.sum()) + 0.5) / (len(shows) + 1.0)
    return -math.log1p(-often) * tail
