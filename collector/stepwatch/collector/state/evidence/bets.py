"""Bets that a rank is slow, fair as long as nobody is: how sure it is, without a model of noise.

Where no rank of a stage is at fault they are exchangeable within a step, whatever the distribution
of their times: heavy tails, lengths of two values, jitter that all share. Let `s` >= 0 be scores of
a step that do not depend on which rank is which. Then each rank's expectation of its own score is
their mean `m`, and these factors have the expectation 1:

    relative    1 - k + k * s / m        loses k at most; for ranks that are slow often
    absolute    1 + l * (s - m)          loses next to nothing; for ranks that are slow rarely

A rank's capital is multiplied by its factor in each step, and begins anew at 1 whenever it is less:
an e-detector (Shin, Ramdas, Rinaldo 2022, https://arxiv.org/abs/2203.03532). It exceeds A after A
steps at the earliest on average, however the times are distributed. All of it is in logarithms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, np.dtype[np.floating]]
"""Any number of axes, of which ranks are the last."""


class Bet(NamedTuple):
    """A score, `excess - dead`, at least 0 and at most `most`, in usual steps of work; how much is
    bet on it."""

    stake: float
    dead: float
    most: float
    relative: bool


BETS = (
    Bet(stake=0.3, dead=0.0, most=0.25, relative=True),
    Bet(stake=0.6, dead=0.08, most=0.5, relative=True),
    Bet(stake=0.8, dead=0.3, most=1.0, relative=True),
    Bet(stake=3.0, dead=0.0, most=1.0, relative=False),
)
"""Small and lasting, medium, large and now and then, rare; chosen on effects of 1.1 to 5 times in
every step to one in 50, noise of 3 % to 30 %, and 2 to 64 ranks."""
ALLOWED = np.float32(0.01)
"""By how much of the usual work a rank may be slower than its peers for ever: what ranks that are
alike differ by on real machines, and less than anybody acts on. It only makes factors smaller."""
LEAST_LEFT = 0.2
"""What an absolute bet leaves of the capital at least."""
MOST_LOG = 60.0
"""Capital beyond it says nothing more, and takes longer to be lost once the rank is healthy."""


def log_factors(excess: Values) -> Values:
    """Logarithms of the factors (bets, ..., ranks) of a stage.

    `excess` (..., ranks) is each rank's work beyond the median rank's, in usual steps of work. Of
    a rank's own score `ALLOWED` is taken off, so that the factors are fair to one that is slower by
    that.

    Excess 0.0, 0.0, 0.2 and a relative bet of 0.3: scores 0, 0, 0.19, mean of the whole scores
    0.067, factors 0.7, 0.7, 1.56.
    """
    factors: Values = np.empty((len(BETS), *excess.shape), dtype=np.float32)
    for bet, out in zip(BETS, factors, strict=True):
        dead, most = np.float32(bet.dead), np.float32(bet.most)
        beyond = excess - dead
        mean = _score(beyond, most).mean(axis=-1, keepdims=True)
        out[:] = _log_factor(bet, _score(beyond - ALLOWED, most), mean)
    return factors


def _score(beyond: Values, most: np.float32) -> Values:
    """At least 0 and at most `most`: `np.clip`, which takes longer to begin."""
    return np.asarray(np.minimum(np.maximum(beyond, np.float32(0.0)), most))


def _log_factor(bet: Bet, score: Values, mean: Values) -> Values:
    """Of each `score` (..., ranks), beside the `mean` of the whole scores it is compared with."""
    divisor = np.maximum(mean, np.float32(1e-12))
    if bet.relative:
        gain = np.float32(bet.stake) * (score / divisor - 1.0)
        gain *= mean > 0
    else:
        gain = np.minimum(bet.stake, (1.0 - LEAST_LEFT) / divisor) * (score - mean)
    log_factor: Values = np.log(gain + np.float32(1.0))  # three times as fast as log1p of 32 bits
    return log_factor


def log_factors_among(excess: Values, faulty: Values) -> Values:
    """As `log_factors` of one step (bets, stages, ranks), where `faulty` (stages, ranks) are known
    to be slow before it: each rank is compared with those that are not, and with itself.

    Who is left out depends on earlier steps alone, so the factors of the others stay fair. Where
    more than half of a stage is faulty nobody is left out.
    """
    few = 2 * faulty.sum(axis=-1, keepdims=True) <= faulty.shape[-1]
    healthy = ~(faulty & few)
    size = (healthy.sum(axis=-1, keepdims=True) + ~healthy).astype(np.float32)
    factors: Values = np.empty((len(BETS), *excess.shape), dtype=np.float32)
    for bet, out in zip(BETS, factors, strict=True):
        dead, most = np.float32(bet.dead), np.float32(bet.most)
        scores = _score(excess - dead, most)
        mean = ((scores * healthy).sum(axis=-1, keepdims=True) + scores * ~healthy) / size
        out[:] = _log_factor(bet, _score(excess - dead - ALLOWED, most), mean)
    return factors


def carried(log_capital: Values, log_factor: Values) -> Values:
    """The capital after a step, all in logarithms."""
    return np.asarray(np.minimum(np.maximum(log_capital, 0.0) + log_factor, MOST_LOG))


def log_alarm(steps_a_day: float, streams: int, alarms_a_day: float) -> float:
    """Capital at which `streams` of them together raise so many false alarms a day, on average.

    The mean of several bets is one, so the largest counts for as many times less.
    """
    return math.log(max(1.0, steps_a_day * streams / alarms_a_day)) + math.log(len(BETS))
