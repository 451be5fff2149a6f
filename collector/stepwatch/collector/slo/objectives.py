"""SLOs: a target over a window of slices, the state it is in, and the budget that is left."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.states import COVERAGE_FLOOR, SloState
from stepwatch.collector.state.holding.unread import Unread, unread_share

SHORT_WINDOW_SECONDS = 60
LEAST_TOTAL = Decimal("60")
"""Device-seconds before a state is called; less is `unknown`."""


class Slo(NamedTuple):
    """An objective: `target` share of good device-seconds of `sli` over `window_seconds`."""

    name: str
    title: str
    sli: str
    target: Decimal
    window_seconds: int


class SloStatus(NamedTuple):
    """An SLO at one moment; ratios are None where nothing was counted.

    `burn_rate` is over the short window: 1 spends the budget exactly within the SLO's window.
    """

    name: str
    state: SloState
    target: Decimal
    ratio: Decimal | None
    budget_remaining: Decimal | None
    burn_rate: Decimal | None
    coverage: Decimal | None


def evaluate_slo(
    slo: Slo, slices: SliceLine, now_s: float, unread: Sequence[Unread] = ()
) -> SloStatus:
    """Evaluate `slo` from the slices of its SLI, at Unix time `now_s`.

    Of `unread` parts of the log nothing is known: they lower the coverage by their share of time.
    """
    good, total, coverage = slices.window(now_s, slo.window_seconds)
    if total == 0:
        return SloStatus(
            name=slo.name,
            state=SloState.UNKNOWN,
            target=slo.target,
            ratio=None,
            budget_remaining=None,
            burn_rate=None,
            coverage=None,
        )
    ratio = good / total
    allowed = (1 - slo.target) * total
    remaining = 1 - (total - good) / allowed
    short_good, short_total, short_coverage = slices.window(now_s, SHORT_WINDOW_SECONDS)
    burn = None
    if short_total > 0:
        burn = (1 - short_good / short_total) / (1 - slo.target)
        coverage = short_coverage
    if coverage is not None and unread:
        coverage = min(coverage, _read(slo.window_seconds, slices, now_s, unread))
        coverage = min(coverage, _read(SHORT_WINDOW_SECONDS, slices, now_s, unread))
    if coverage is None or coverage < COVERAGE_FLOOR:
        state = SloState.FROZEN
    elif total < LEAST_TOTAL:
        state = SloState.UNKNOWN
    elif remaining <= 0:
        state = SloState.EXHAUSTED
    else:
        state = SloState.BURNING if burn is not None and burn > 1 else SloState.OK
    left = None if state is SloState.UNKNOWN else remaining
    return SloStatus(
        name=slo.name,
        state=state,
        target=slo.target,
        ratio=ratio,
        budget_remaining=left,
        burn_rate=burn,
        coverage=coverage,
    )


def _read(seconds: float, slices: SliceLine, now_s: float, unread: Sequence[Unread]) -> Decimal:
    """Share of a window, from the beginning of the job on, of which the log could be read."""
    began = min(slices.first_s, min(part.from_s for part in unread))
    share = unread_share(unread, max(began, now_s - seconds), now_s)
    return Decimal(str(round(1.0 - share, 9)))


def budget_words(remaining: Decimal | None) -> str:
    """A budget as people read it: `40% left`, `all spent`, `spent 16x`, `unknown`.

    `remaining` is the unspent share of what the target allows; it is below 0 once more is spent.
    """
    if remaining is None:
        return "unknown"
    spent = 1 - remaining
    if remaining <= 0:
        return "all spent" if spent < Decimal("1.05") else f"spent {_times(spent)}"
    if remaining < Decimal("0.01"):
        return "less than 1% left"
    return f"{remaining.quantize(Decimal('0.01'), ROUND_FLOOR):.0%} left"


def _times(spent: Decimal) -> str:
    return f"{spent:.1f}x" if spent < 10 else f"{spent:,.0f}x"
