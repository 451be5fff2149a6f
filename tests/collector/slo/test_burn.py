"""Which burn rates an SLO can reach at all."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stepwatch.collector.slo.asked.burn import burn_pairs, reachable
from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.objectives import Slo

DAY = 86_400


def slo(target: str, days: float) -> Slo:
    return Slo("one", "", "step-time", Decimal(target), RollingWindow(round(days * DAY)))


def test_the_workbooks_own_figures() -> None:
    """Table 5-8: burn rates 14.4, 6 and 1 over 30 days."""
    found = reachable(slo("0.999", 30))
    assert [each.rate for each in found] == [Decimal("14.4"), Decimal(6), Decimal(1)]
    assert all(each.can_fire for each in found)
    assert found[0].bad_share == Decimal("0.0144")


def test_the_worked_example() -> None:
    page = reachable(slo("0.95", 28))[0]
    assert (page.rate, page.ceiling) == (Decimal("13.44"), Decimal(20))
    assert page.bad_share == Decimal("0.672")


@pytest.mark.parametrize(("target", "fires"), [("0.95", True), ("0.93", False), ("0.5", False)])
def test_a_rate_beyond_the_ceiling_can_never_fire(target: str, fires: bool) -> None:
    assert reachable(slo(target, 30))[0].can_fire is fires


def test_a_window_that_is_no_longer_than_the_alerts_asks_nothing() -> None:
    assert [each.pair.long_seconds for each in reachable(slo("0.95", 1))] == [3600, 21_600]
    assert reachable(slo("0.95", 1 / 24)) == []


def test_pairs_look_at_a_short_time_within_a_long_one() -> None:
    for pair in burn_pairs():
        assert 0 < pair.short_seconds < pair.long_seconds
        assert 0 < pair.budget_share < 1
