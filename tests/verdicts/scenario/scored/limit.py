"""The best possible test: it knows the slow rank, the time of the fault and its effect.

It compares the likelihood of its readings with and without the fault, step by step. It says
"faulty" if the sum exceeds the limit that chance exceeds once in so many days. It knows the true
distribution of the noise, and takes steps as independent.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from stepwatch.signals.arrays import Matrix, Vector
from tests.verdicts.scenario.course.noise import COLUMNS, TOKENS, Noise
from tests.verdicts.scenario.plan import Fault, FaultKind, Scenario

FALSE_PER_DAY, EVIDENCE_SECONDS = 0.1, 300.0
_STEPS, _BINS = 512, 40
_NORMAL = NormalDist()
_DATA, _FORWARD, _BACKWARD, _OPTIMIZER, _TRANSFER = range(len(COLUMNS))
_SLOWS: dict[FaultKind, tuple[int, ...]] = {
    FaultKind.SLOW_COMPUTE: (_FORWARD, _BACKWARD),
    FaultKind.SLOW_NODE: (_FORWARD, _BACKWARD),
    FaultKind.SLOW_DATA: (_DATA,),
    FaultKind.SLOW_DATA_EVERYWHERE: (_DATA,),
    FaultKind.SLOW_OPTIMIZER: (_OPTIMIZER,),
    FaultKind.SLOW_LINK: (_TRANSFER,),
}
"""Columns of times that a fault makes longer; other faults have no such limit."""
_ALL_RANKS = frozenset({FaultKind.SLOW_DATA_EVERYWHERE, FaultKind.SLOW_LINK})


def limit_of(scenario: Scenario, fault: Fault) -> float:
    """Return the probability that the best test finds a fault in five minutes; NaN if unknown."""
    if fault.kind not in _SLOWS:
        return math.nan
    healthy_sample, faulty_sample = _samples(scenario, fault)
    shown = min(EVIDENCE_SECONDS, fault.seconds, scenario.seconds - fault.onset)
    mean_step = scenario.step_seconds * (1.0 + (fault.effect - 1.0) / fault.period)
    return power(healthy_sample, faulty_sample, shown / mean_step / fault.period)


def power(
    healthy_sample: Vector, faulty_sample: Vector, steps: float, seconds: float = EVIDENCE_SECONDS
) -> float:
    """Return the probability to tell `faulty_sample` from `healthy_sample` in `steps` steps.

    Each sample holds the readings of single steps.

    The threshold is that of `FALSE_PER_DAY`, for a test of `seconds`. Sums of log likelihoods are
    taken as normal.

    Worked example: two samples alike give the chance of a false alarm, 0.0003.
    """
    edges = np.unique(
        np.quantile(np.concatenate((healthy_sample, faulty_sample)), np.linspace(0.0, 1.0, _BINS))
    )
    if len(edges) < 3:
        return 0.0
    healthy, faulty = _shares(healthy_sample, edges), _shares(faulty_sample, edges)
    ratio = np.log(faulty / healthy)
    by_chance = FALSE_PER_DAY * seconds / 86_400.0
    mean, spread = _moments(healthy, ratio)
    beyond = steps * mean + _NORMAL.inv_cdf(1.0 - by_chance) * spread * math.sqrt(steps)
    mean, spread = _moments(faulty, ratio)
    if spread <= 0.0:
        return float(by_chance)
    return 1.0 - _NORMAL.cdf((beyond - steps * mean) / (spread * math.sqrt(steps)))


def _shares(sample: Vector, edges: Vector) -> Vector:
    """Return the sample's share in each bin; an empty bin is not impossible."""
    counts = np.histogram(sample, edges)[0] + 0.5
    return np.asarray(counts / counts.sum())


def _moments(shares: Vector, values: Vector) -> tuple[float, float]:
    mean = float(shares @ values)
    return mean, math.sqrt(max(0.0, float(shares @ (values - mean) ** 2)))


def _samples(scenario: Scenario, fault: Fault) -> tuple[Vector, Vector]:
    """Return log seconds without and with the fault, over the peers' if there are any."""
    noise = Noise(scenario)
    works = [noise.step() for _ in range(_STEPS)]
    columns = list(_SLOWS[fault.kind])
    usual = np.stack([work.seconds[:, columns].sum(axis=1) for work in works])
    if _FORWARD in columns:
        usual = usual / np.stack([work.tokens for work in works]) * TOKENS
        slow = usual * fault.effect
    else:
        slow = usual + (fault.effect - 1.0) * scenario.step_seconds
    if fault.kind in _ALL_RANKS or fault.kind is FaultKind.SLOW_NODE:
        return np.log(usual.mean(axis=1)), np.log(slow.mean(axis=1))
    peers = _of_peers(usual)
    return np.log(usual / peers).ravel(), np.log(slow / peers).ravel()


def _of_peers(seconds: Matrix) -> Matrix:
    """Return the mean of the other ranks (steps, ranks)."""
    count = seconds.shape[1]
    return np.asarray((seconds.sum(axis=1, keepdims=True) - seconds) / (count - 1))
