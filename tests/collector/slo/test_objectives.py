"""SLOs: exact arithmetic, coverage gates, unknown where nothing is known."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.objectives import (
    SHORT_WINDOW_SECONDS,
    Slo,
    budget_words,
    evaluate_slo,
)
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.states import SloState
from stepwatch.collector.store.slices import SLICE_SECONDS, Slice

SLO = Slo("step-time", "", "step-time", Decimal("0.95"), RollingWindow(200))


def slices_of(parts: list[tuple[float, float]], coverage: float = 1.0) -> list[Slice]:
    """Consecutive slices from (good, total)."""
    result, good, total = [], 0.0, 0.0
    for index, part in enumerate(parts):
        good, total = good + part[0], total + part[1]
        start = index * SLICE_SECONDS
        result.append(Slice(start, 1, *part, round(100 * coverage), 100, good, total))
    return result


def end_of(slices: list[Slice]) -> float:
    return slices[-1].start_s + SLICE_SECONDS / 2


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ([(40.0, 40.0)] * 30, SloState.OK),
        ([(40.0, 40.0)] * 300 + [(36.0, 40.0)] * 6, SloState.BURNING),
        ([(36.0, 40.0)] * 30, SloState.EXHAUSTED),
        ([(0.0, 40.0)] * 30, SloState.EXHAUSTED),
        ([(0.0, 40.0)] * 4 + [(40.0, 40.0)] * 6, SloState.TOO_EARLY),
        ([(40.0, 40.0)] * 8, SloState.TOO_EARLY),
        ([(0.0, 40.0)] * 10, SloState.TOO_EARLY),
        ([(40.0, 40.0)] * 4 + [(0.0, 40.0)] * 8, SloState.BURNING),
        ([], SloState.UNKNOWN),
        ([(0.0, 0.0)] * 20, SloState.UNKNOWN),
    ],
)
def test_states(parts: list[tuple[float, float]], state: SloState) -> None:
    slices = slices_of(parts)
    assert evaluate_slo(SLO, SliceLine(slices), end_of(slices) if slices else 0.0).state is state


def test_no_budget_is_evaluated_before_the_first_hour_of_a_job() -> None:
    """A run that starts for a minute has not spent what 28 days allow; the same share is gone when
    an hour was like that."""
    month = SLO._replace(window=RollingWindow(28 * 86_400))
    part = [(0.0, 40.0)] * 6 + [(40.0, 40.0)] * 54
    young, old = slices_of(part), slices_of(part * 7)
    slo_status = evaluate_slo(month, SliceLine(young), end_of(young))
    assert (slo_status.state, slo_status.budget_remaining) == (SloState.TOO_EARLY, None)
    assert "60 min" in slo_status.reason
    assert evaluate_slo(month, SliceLine(old), end_of(old)).state is SloState.EXHAUSTED


def test_nothing_counted_is_no_ratio() -> None:
    slo_status = evaluate_slo(SLO, SliceLine([]), 1e9)
    assert (
        slo_status.ratio,
        slo_status.budget_remaining,
        slo_status.burn_rate,
        slo_status.coverage,
    ) == (None,) * 4


@pytest.mark.parametrize(("coverage", "frozen"), [(0.89, True), (0.90, False), (0.0, True)])
def test_below_the_coverage_floor_nothing_is_judged(coverage: float, frozen: bool) -> None:
    for part in ((40.0, 40.0), (0.0, 40.0)):
        slices = slices_of([part] * 30, coverage)
        slo_status = evaluate_slo(SLO, SliceLine(slices), end_of(slices))
        assert (slo_status.state is SloState.FROZEN) == frozen
        assert slo_status.coverage == Decimal(str(coverage))


def test_uncoveredness_of_the_newest_minute_freezes_a_long_window() -> None:
    slices = slices_of([(40.0, 40.0)] * 200)
    short = SHORT_WINDOW_SECONDS // SLICE_SECONDS
    uncovered = [part._replace(observed=10) for part in slices[-short - 1 :]]
    assert (
        evaluate_slo(SLO, SliceLine([*slices[: -short - 1], *uncovered]), end_of(slices)).state
        is SloState.FROZEN
    )


def test_arithmetic_is_exact() -> None:
    slices = slices_of([(0.1, 0.1)] * 999 + [(0.0, 0.1)])
    slo = SLO._replace(target=Decimal("0.99"), window=RollingWindow(100_000))
    slo_status = evaluate_slo(slo, SliceLine(slices), end_of(slices))
    assert slo_status.ratio == Decimal("0.999")
    assert slo_status.budget_remaining == Decimal("0.9")
    assert str(slo_status.ratio) == "0.999"


def test_a_window_leaves_out_what_is_older() -> None:
    slices = slices_of([(0.0, 40.0)] * 100 + [(40.0, 40.0)] * 400)
    slo_status = evaluate_slo(
        SLO._replace(window=RollingWindow(1000)), SliceLine(slices), end_of(slices)
    )
    assert slo_status.ratio == 1 and slo_status.budget_remaining == 1
    assert evaluate_slo(
        SLO._replace(window=RollingWindow(5000)), SliceLine(slices), end_of(slices)
    ).ratio == Decimal("0.8")


def test_burn_rate_is_of_the_newest_minute() -> None:
    slices = slices_of([(0.0, 40.0)] * 10 + [(40.0, 40.0)] * 100)
    slo_status = evaluate_slo(SLO, SliceLine(slices), end_of(slices))
    assert slo_status.burn_rate == 0
    worse = slices_of([(40.0, 40.0)] * 100 + [(38.0, 40.0)] * 10)
    assert evaluate_slo(SLO, SliceLine(worse), end_of(worse)).burn_rate == 1, (
        "exactly the budget's pace"
    )


@pytest.mark.parametrize(
    ("remaining", "words"),
    [
        ("1", "100% left"),
        ("0.999", "99% left"),
        ("0.004", "less than 1% left"),
        ("0", "all spent"),
        ("-0.04", "all spent"),
        ("-0.6", "spent 1.6x"),
        ("-15.17", "spent 16x"),
        ("-98.6", "spent 100x"),
        ("-3000", "spent over 100x"),
        (None, "unknown"),
    ],
)
def test_a_budget_is_told_so_that_overspending_can_be_read(
    remaining: str | None, words: str
) -> None:
    assert budget_words(None if remaining is None else Decimal(remaining)) == words
