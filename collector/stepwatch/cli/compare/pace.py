"""Decide whether one run is slower than another, with confidence. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

LEAST_BLOCKS = 8
"""Blocks of a run from which its spread is estimated well enough."""
CONFIDENCE = 0.95


class Verdict(StrEnum):
    """Result of a comparison; unclear: a regression is neither shown nor ruled out."""

    REGRESSION = "regression"
    NO_REGRESSION = "no regression"
    UNCLEAR = "unclear"


class Pace(NamedTuple):
    """Work per second and device, with its spread (standard error over value)."""

    value: float
    error: float
    blocks: int


class Ratio(NamedTuple):
    """One run's pace over another's, with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float


def has_tokens(run: Mapping[str, Any]) -> bool:
    """Return whether every block of a run counts tokens."""
    return bool(run["blocks"]) and all(block["tokens"] > 0 for block in run["blocks"])


def pace(run: Mapping[str, Any], work: str) -> Pace | None:
    """Return work (`tokens` or `steps`) per second and device; None without data for the run.

    The error is that for a ratio of sums over blocks (Cochran, Sampling Techniques, 1977, 2.11):
    blocks are long enough to be nearly independent, but single steps are not.
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
    """Return the pace of `new` over that of `base`, with its interval from the spread in each run.

    The interval excludes differences from run to run, such as other users on the machine.
    """
    value = new.value / base.value
    error = math.hypot(base.error, new.error)
    if not math.isfinite(error):
        return Ratio(value, 0.0, math.inf)
    freedom = _freedom((base.error, base.blocks), (new.error, new.blocks))
    wide = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    return Ratio(value, value * math.exp(-wide), value * math.exp(wide))


def verdict(pace_ratio: Ratio | None, blocks: Sequence[int], bound: float) -> Verdict:
    """Return the verdict on a pace ratio against `bound`.

    A regression is slower by more than `bound` and significantly slower. No regression means that a
    slowdown beyond `bound` is ruled out. Everything else is unclear.
    """
    if pace_ratio is None or min(blocks) < LEAST_BLOCKS:
        return Verdict.UNCLEAR
    limit = 1.0 - bound
    if pace_ratio.value < limit and pace_ratio.high < 1.0:
        return Verdict.REGRESSION
    return Verdict.NO_REGRESSION if pace_ratio.low >= limit else Verdict.UNCLEAR


def t_quantile(share: float, freedom: float) -> float:
    """Return Student's t quantile from the normal one (Abramowitz and Stegun, 26.7.5).

    It is within 0.3 % from 7 degrees of freedom up.
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _freedom(*errors_and_blocks: tuple[float, int]) -> float:
    """Return the degrees of freedom for a sum of two variances (Welch and Satterthwaite)."""
    total = sum(error**2 for error, _ in errors_and_blocks)
    parts = sum(error**4 / (blocks - 1) for error, blocks in errors_and_blocks)
    return total**2 / parts if parts > 0 else math.inf
