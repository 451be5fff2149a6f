"""Bets that a rank is slow, fair while all ranks are healthy: confidence without a noise model.

If no rank in a stage is at fault, the ranks are exchangeable within a step, whatever the
distribution: heavy tails, bimodal step lengths, jitter common to all ranks. Let `s` >= 0 be scores
in a step that do not depend on the rank order. Then each rank's expected score is the mean `m`, and
these factors have the expectation 1:

    relative    1 - k + k * s / m        loses k at most; for ranks that are slow often
    absolute    1 + l * (s - m)          loses next to nothing; for ranks that are slow rarely

A rank's capital is multiplied by its factor in each step, and is reset to 1 whenever it is less: an
e-detector (Shin, Ramdas, Rinaldo 2022, https://arxiv.org/abs/2203.03532). On average it needs at
least A steps to exceed A, whatever the distribution. All values are logarithms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, np.dtype[np.floating]]
"""Any number of axes, the last for ranks."""


class Bet(NamedTuple):
    """A bet with its stake and its score.

    The score is `excess - dead`, at least 0 and at most `most`, in usual steps of work.
    """

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
"""Bets for small lasting effects, medium effects, large intermittent effects, and rare effects.

Tuned on effects from 1.1 to 5 times, in every step to one in 50, with noise from 3 % to 30 %, and
2 to 64 ranks.
"""
_RELATIVE = sum(bet.relative for bet in BETS)
"""Number of relative bets, which come first."""
_STAKES, _DEAD, _MOST = (
    np.array([getattr(bet, name) for bet in BETS], dtype=np.float32)
    for name in ("stake", "dead", "most")
)
ALLOWED = np.float32(0.01)
"""Share of the usual work by which a rank may always be slower than its peers.

Equal ranks on real machines differ by this much, and no operator acts on less. It only makes
factors smaller.
"""
LEAST_LEFT = 0.2
"""Least share of the capital that an absolute bet leaves."""
MOST_LOG = 60.0
"""Maximum capital: more adds no information, and takes longer to lose once the rank is healthy."""


def log_factors(excess: Values) -> Values:
    """Return the log factors (bets, ..., ranks) for a stage.

    `excess` (..., ranks) is each rank's work beyond the median rank's, in usual steps of work.
    `ALLOWED` is subtracted from a rank's own score, so the factors are fair to a rank that is
    slower by that much.

    Excess 0.0, 0.0, 0.2 and a relative bet of 0.3: scores 0, 0, 0.19, mean of the whole scores
    0.067, factors 0.7, 0.7, 1.56.
    """
    shape = (-1, *(1,) * excess.ndim)
    beyond, most = excess - _DEAD.reshape(shape), _MOST.reshape(shape)
    means = _score(beyond, most).mean(axis=-1, keepdims=True)
    return _log_factors(_score(beyond - ALLOWED, most), means)


def _score(beyond: Values, most: Values) -> Values:
    """Clip to 0 and `most`; `np.clip` has a higher call overhead."""
    return np.asarray(np.minimum(np.maximum(beyond, np.float32(0.0)), most))


def _log_factors(scores: Values, means: Values) -> Values:
    """Return the log factor for each score (bets, ..., ranks), relative to the whole scores' mean.

    All bets at once: a stage of eight ranks takes as long for four bets as for one.
    """
    divisors = np.maximum(means, np.float32(1e-12))
    shape = (-1, *(1,) * (scores.ndim - 1))
    gains: Values = np.empty(scores.shape, dtype=np.float32)
    relative = _STAKES[:_RELATIVE].reshape(shape) * (
        scores[:_RELATIVE] / divisors[:_RELATIVE] - np.float32(1.0)
    )
    np.multiply(relative, means[:_RELATIVE] > 0, out=gains[:_RELATIVE])
    stakes = np.minimum(
        _STAKES[_RELATIVE:].reshape(shape), np.float32(1.0 - LEAST_LEFT) / divisors[_RELATIVE:]
    )
    np.multiply(stakes, scores[_RELATIVE:] - means[_RELATIVE:], out=gains[_RELATIVE:])
    gains += np.float32(1.0)  # three times as fast as a 32-bit log1p
    return np.log(gains, out=gains)


def log_factors_among(excess: Values, faulty: Values) -> Values:
    """Return `log_factors` for one step (bets, stages, ranks) with some ranks known to be slow.

    `faulty` (stages, ranks) marks ranks known to be slow before this step. Each rank is compared
    with the healthy ranks and with itself. The exclusion depends on earlier steps alone, so the
    other ranks' factors stay fair. If more than half a stage is faulty, no rank is excluded.
    """
    few = 2 * faulty.sum(axis=-1, keepdims=True) <= faulty.shape[-1]
    healthy = ~(faulty & few)
    size = (healthy.sum(axis=-1, keepdims=True) + ~healthy).astype(np.float32)
    shape = (-1, *(1,) * excess.ndim)
    beyond, most = excess - _DEAD.reshape(shape), _MOST.reshape(shape)
    scores = _score(beyond, most)
    means = ((scores * healthy).sum(axis=-1, keepdims=True) + scores * ~healthy) / size
    return _log_factors(_score(beyond - ALLOWED, most), means)


def carried(log_capital: Values, log_factor: Values) -> Values:
    """Return the log capital after a step."""
    return np.asarray(np.minimum(np.maximum(log_capital, 0.0) + log_factor, MOST_LOG))


def log_alarm(steps_a_day: float, streams: int, alarms_a_day: float) -> float:
    """Return the log capital at which `streams` together raise `alarms_a_day` false alarms.

    The mean of several bets is one, so the largest counts for as many times less.
    """
    return math.log(max(1.0, steps_a_day * streams / alarms_a_day)) + math.log(len(BETS))
