"""Intervals: exact for rates with few events and shares with few trials; of a share of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from stepwatch.signals.arrays import Vector

_TAIL = 0.05
"""Probability in each of the two tails: a 90 % interval."""


NORMAL_95 = 1.6449
"""The 95 % quantile of the normal distribution."""


class Share(NamedTuple):
    """A share of the time, with the bounds of its interval."""

    share: float
    low: float
    high: float


def poisson_interval(count: int) -> tuple[float, float]:
    """Return the 90 % interval for the expected number of events, given `count` (Garwood 1936).

    Worked example: none came -> 0 to 3.0; one -> 0.05 to 4.7.
    """
    high = _root(lambda mean: _poisson_up_to(count, mean) - _TAIL, 0.0, 2.0 * count + 20.0)
    if not count:
        return 0.0, high
    low = _root(lambda mean: 1.0 - _TAIL - _poisson_up_to(count - 1, mean), 0.0, float(count))
    return low, high


def share_interval(good: int, trials: int) -> tuple[float, float]:
    """Return the 90 % interval for a share with `good` out of `trials`.

    It is the posterior with Jeffreys' prior, Beta(good + 1/2, trials - good + 1/2). Without trials
    it is 0 to 1. Worked example: 3 of 3 -> 0.56 to 1.0.
    """
    if not trials:
        return 0.0, 1.0
    alpha, beta = good + 0.5, trials - good + 0.5
    low = 0.0 if not good else _root(lambda x: _beta_up_to(x, alpha, beta) - _TAIL, 0.0, 1.0)
    high = (
        1.0
        if good == trials
        else _root(lambda x: _beta_up_to(x, alpha, beta) - (1.0 - _TAIL), 0.0, 1.0)
    )
    return low, high


def _poisson_up_to(count: int, mean: float) -> float:
    """Return the probability of at most `count` events."""
    if mean <= 0:
        return 1.0
    logs = (events * math.log(mean) - math.lgamma(events + 1) - mean for events in range(count + 1))
    return min(1.0, math.fsum(map(math.exp, logs)))


def _beta_up_to(x: float, alpha: float, beta: float, steps: int = 400) -> float:
    """Return the probability that a Beta(alpha, beta) variable is at most `x`.

    With x = sin(t)**2 its density has no pole: 2 sin(t)**(2 a - 1) cos(t)**(2 b - 1).
    """
    log = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta) + math.log(2.0)
    end = math.asin(math.sqrt(min(1.0, max(0.0, x))))

    def density(angle: float) -> float:
        sine, cosine = math.sin(angle), math.cos(angle)
        if sine <= 0 or cosine <= 0:
            return math.exp(log) if (2 * alpha - 1 == 0 and sine <= 0) else 0.0
        return math.exp(log + (2 * alpha - 1) * math.log(sine) + (2 * beta - 1) * math.log(cosine))

    width = end / steps
    inner = sum((4 if index % 2 else 2) * density(index * width) for index in range(1, steps))
    return (density(0.0) + inner + density(end)) * width / 3


def _root(rises_or_falls: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a monotonic function, to 9 digits."""
    rising = rises_or_falls(high) > rises_or_falls(low)
    for _ in range(60):
        middle = (low + high) / 2
        if (rises_or_falls(middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def share_of(net: Vector, seconds: Vector) -> Share:
    """Return the time share with its 90 % interval, from the scatter between buckets.

    The bounds are -inf and inf with fewer than three buckets.
    """
    count, total = len(net), float(seconds.sum())
    share = float(net.sum()) / total
    if count < 3:
        return Share(share, -math.inf, math.inf)
    scatter = float(((net - share * seconds) ** 2).sum()) * count / (count - 1)
    error = _t_quantile(count - 1) * math.sqrt(scatter) / total
    return Share(share, share - error, share + error)


def _t_quantile(freedom: int) -> float:
    """Return Student's t 95 % quantile: the first terms of its expansion about the normal one."""
    z = NORMAL_95
    first = (z**3 + z) / (4 * freedom)
    return z + first + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
