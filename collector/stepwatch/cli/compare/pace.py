"""Whether one run is slower than another, and how sure that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

LEAST_BLOCKS = 8
"""Parts of a run of which the spread is known well enough."""
CONFIDENCE = 0.95


class Verdict(StrEnum):
    """What a comparison comes to; unclear: a regression is neither seen nor ruled out."""

    REGRESSION = "regression"
    NO_REGRESSION = "no regression"
    UNCLEAR = "unclear"


class Pace(NamedTuple):
    """Work a second and device, and the spread of that (standard error over value)."""

    value: float
    error: float
    blocks: int


class Ratio(NamedTuple):
    """The pace of a run over that of another, with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


def has_tokens(run: Mapping[str, Any]) -> bool:
    """Whether tokens are known of all parts of a run."""
    return bool(run["blocks"]) and all(block["tokens"] > 0 for block in run["blocks"])


def pace(run: Mapping[str, Any], work: str) -> Pace | None:
    """Work (`tokens` or `steps`) a second and device; None where nothing is known of the run.

    The error is that of a ratio of sums over blocks (Cochran, Sampling Techniques, 1977, 2.11):
    blocks are long enough to be nearly independent where single steps are not.
    """
    blocks, devices = run["blocks"], run["world_size"]
    if not blocks or not devices:
        return None
    amounts = np.array([block[work] for block in blocks], dtype=float)
    seconds = np.array([block["seconds"] for block in blocks])
    value = amounts.sum() / seconds.sum()
    if not value > 0:
        return None
    count, error = len(blocks), math.inf
    if count > 1:
        residuals = amounts - value * seconds
        error = math.sqrt(np.sum(residuals**2) / (count * (count - 1))) / amounts.mean()
    return Pace(value / devices, float(error), count)


def ratio(base: Pace, new: Pace) -> Ratio:
    """The pace of `new` over that of `base`, as far as the two runs spread in themselves.

    What differs from run to run, such as other users of the machine, is not in it.
    """
    value = new.value / base.value
    error = math.hypot(base.error, new.error)
    if not math.isfinite(error):
        return Ratio(value, 0.0, math.inf)
    freedom = _freedom((base.error, base.blocks), (new.error, new.blocks))
    wide = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    return Ratio(value, value * math.exp(-wide), value * math.exp(wide))


def verdict(pace_ratio: Ratio | None, blocks: Sequence[int], bound: float) -> Verdict:
    """A regression is surely slower, and by more than `bound`; no regression is where so much can
    be ruled out, or the run is no slower than `bound` allows and surely not by much more."""
    if pace_ratio is None or min(blocks) < LEAST_BLOCKS:
        return Verdict.UNCLEAR
    limit = 1.0 - bound
    if pace_ratio.value < limit and pace_ratio.high < 1.0:
        return Verdict.REGRESSION
    return Verdict.NO_REGRESSION if pace_ratio.low >= limit else Verdict.UNCLEAR


def t_quantile(share: float, freedom: float) -> float:
    """Quantile of Student's t from that of the normal (Abramowitz and Stegun, 26.7.5); within 0.3 %
    from 7 degrees of freedom on."""
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _freedom(*errors_and_blocks: tuple[float, int]) -> float:
    """Degrees of freedom of the sum of two variances (Welch and Satterthwaite)."""
    total = sum(error**2 for error, _ in errors_and_blocks)
    parts = sum(error**4 / (blocks - 1) for error, blocks in errors_and_blocks)
    return total**2 / parts if parts > 0 else math.inf
