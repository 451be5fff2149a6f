"""Burn rates: the speed of budget loss that needs an operator, and which rates are reachable. Pure.

A burn rate of 1 spends the budget exactly within the SLO's window. With only bad time it reaches
its maximum, 1 / (1 - target): an alert above it never fires, however bad the time is.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import NamedTuple

from stepwatch.collector.slo.asked.windows import shortest_seconds
from stepwatch.collector.slo.burning import Burning, BurnPair
from stepwatch.collector.slo.objectives import Slo, counted_in
from stepwatch.collector.slo.slice_line import SliceLine, Window


class Reachable(NamedTuple):
    """A burn pair for one SLO: the required burn `rate`, and the highest possible `ceiling`."""

    pair: BurnPair
    rate: Decimal
    ceiling: Decimal

    @property
    def bad_share(self) -> Decimal:
        """Bad share in the long window that fires the alert; more than 1 is unreachable."""
        return self.rate / self.ceiling

    @property
    def can_fire(self) -> bool:
        """Whether the required rate is reachable."""
        return self.rate <= self.ceiling


@cache
def burn_pairs() -> tuple[BurnPair, ...]:
    """Return the shipped pairs, most urgent first."""
    text = resources.files(__package__).joinpath("burn_rates.toml").read_text(encoding="utf-8")
    return tuple(
        BurnPair(**{**pair, "budget_share": Decimal(str(pair["budget_share"]))})
        for pair in tomllib.loads(text)["pair"]
    )


def reachable(slo: Slo, pairs: Sequence[BurnPair] | None = None) -> list[Reachable]:
    """Return the required rate of each pair; pairs as long as the SLO's window are skipped.

    Worked example: target 0.95 over 28 days. 2 % of the budget in an hour is a rate of 0.02 * 672 =
    13.44; the ceiling is 1 / 0.05 = 20, so it fires from 67 % bad time on.
    """
    seconds = shortest_seconds(slo.window)
    if slo.limit is not None or math.isinf(seconds):
        return []  # no budget, or no window in which it could burn
    length, ceiling = Decimal(str(seconds)), 1 / (1 - slo.target)
    return [
        Reachable(pair, pair.budget_share * length / pair.long_seconds, ceiling)
        for pair in (burn_pairs() if pairs is None else pairs)
        if pair.long_seconds < seconds
    ]


def burning(
    slo: Slo,
    slices: SliceLine,
    now_s: float,
    without: Sequence[tuple[float, float]] = (),
) -> tuple[Burning, ...]:
    """Return the pairs whose rate is exceeded in both windows at Unix time `now_s`.

    Planned time (`without`) does not count. For a job younger than the long window, earlier time
    counts as good: a bad first minute has not spent 2 % of a month's budget. Worked example: target
    0.95 over 28 days needs a rate of 13.44 over an hour; half an hour with 80 % bad time burned at
    16, as an hour at 8.
    """
    burning_pairs = []
    for reachable_pair in reachable(slo):
        pair = reachable_pair.pair
        if not reachable_pair.can_fire:
            continue
        long = counted_in(slo, slices, now_s, pair.long_seconds, without)
        if not long.total:
            continue
        ran = min(1.0, max(0.0, now_s - slices.first_s) / pair.long_seconds)
        rate = _rate(slo, long) * Decimal(str(ran))
        if rate < reachable_pair.rate:
            continue  # nearly always
        short = counted_in(slo, slices, now_s, pair.short_seconds, without)
        if short.total and _rate(slo, short) >= reachable_pair.rate:
            burning_pairs.append(Burning(pair, rate, reachable_pair.rate))
    return tuple(burning_pairs)


def _rate(slo: Slo, window: Window) -> Decimal:
    return (1 - window.good / window.total) / (1 - slo.target)
