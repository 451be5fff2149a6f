"""How likely something is by chance alone."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from stepwatch.signals.arrays import Integers, Vector


@lru_cache(maxsize=4096)
def at_least(count: int, trials: int, rate: float) -> float:
    """Probability of `count` or more successes in `trials` at `rate` each: the binomial tail."""
    return sum(
        math.comb(trials, number) * rate**number * (1 - rate) ** (trials - number)
        for number in range(count, trials + 1)
    )


def log_alarms(count: int, rate: float, steps: int, steps_a_day: float) -> float:
    """Logarithm of one over how often a day `count` events come in `steps`, at a `rate` in each.

    Each event of a day is one look back, at whether `count - 1` came before it in as many
    steps: so many alarms are expected a day (Mecke's formula for a Poisson process).

    Worked example: 6 in 400 steps of a second at a rate of 1 in 2,000. 43 come a day, and the
    chance of 5 or more where 0.2 are expected is 2.3e-6: one alarm in 10,000 days, 9.2.
    """
    return -(math.log(rate * steps_a_day) + _log_tail(count - 1, rate * steps))


def _log_tail(count: int, mean: float) -> float:
    """Logarithm of a bound on the chance of `count` or more of a Poisson number: its first term,
    and a geometric series above the others. That of a binomial number is less."""
    if count <= mean:
        return 0.0
    first = count * math.log(mean) - mean - math.lgamma(count + 1.0)
    return min(0.0, first - math.log1p(-mean / (count + 1.0)))


def divergence(share: Vector, rate: Vector) -> Vector:
    """Kullback-Leibler divergence of `share` from the `rate` of trials, 0 where it is not more.

    So many times the number of trials is a lower bound on the logarithm of one over the chance of
    such a share or more (Chernoff 1952, https://doi.org/10.1214/aoms/1177729330).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = share * np.log(share / rate)
        misses = (1.0 - share) * np.log((1.0 - share) / (1.0 - rate))
    divergences = np.where(np.isnan(hits), 0.0, hits) + np.where(np.isnan(misses), 0.0, misses)
    return np.where(share > rate, divergences, 0.0)


def log_among(counts: Integers, total: Integers | Vector, chance: Vector) -> Vector:
    """Logarithm of a bound on one over the chance that `counts` or more of `total` events hit
    somebody whom each hits with `chance`; 0 where there are none. All of one shape."""
    share = np.divide(counts, total, out=np.zeros(len(counts)), where=total > 0)
    return np.asarray(total * divergence(share, chance))
