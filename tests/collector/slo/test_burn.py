"""Which burn rates an SLO can reach at all."""

from __future__ import annotations

from decimal import Decimal

import pytest

from stepwatch.collector.slo.asked.burn import burn_pairs, burning, reachable
from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.objectives import Slo
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.store.slices import Slice

DAY = 86_400


def slo(target: str, days: float) -> Slo:
    return Slo("one", "", "step-time", Decimal(target), RollingWindow(round(days * DAY)))


def test_the_workbooks_own_figures() -> None:
    """Table 5-8: burn rates 14.4, 6 and 1 over 30 days."""
    thresholds = reachable(slo("0.999", 30))
    assert [threshold.rate for threshold in thresholds] == [Decimal("14.4"), Decimal(6), Decimal(1)]
    assert all(threshold.can_fire for threshold in thresholds)
    assert thresholds[0].bad_share == Decimal("0.0144")


def test_the_worked_example() -> None:
    page = reachable(slo("0.95", 28))[0]
    assert (page.rate, page.ceiling) == (Decimal("13.44"), Decimal(20))
    assert page.bad_share == Decimal("0.672")


@pytest.mark.parametrize(("target", "fires"), [("0.95", True), ("0.93", False), ("0.5", False)])
def test_a_rate_beyond_the_ceiling_can_never_fire(target: str, fires: bool) -> None:
    assert reachable(slo(target, 30))[0].can_fire is fires


def test_a_window_that_is_no_longer_than_the_alerts_asks_nothing() -> None:
    assert [threshold.pair.long_seconds for threshold in reachable(slo("0.95", 1))] == [
        3600,
        21_600,
    ]
    assert reachable(slo("0.95", 1 / 24)) == []


def test_pairs_look_at_a_short_time_within_a_long_one() -> None:
    for pair in burn_pairs():
        assert 0 < pair.short_seconds < pair.long_seconds
        assert 0 < pair.budget_share < 1


BEGAN = 1_774_000_000 // 3600 * 3600
DEVICES = 4


def line(minutes_ago: float, bad: dict[tuple[float, float], float]) -> tuple[SliceLine, float]:
    """A job that began so many minutes ago, and until when: all is good, but shares of some spans
    between minutes ago are bad."""
    count = int(minutes_ago * 6)
    good = total = 0.0
    slices = []
    for number in range(count):
        ago = minutes_ago - number / 6
        lost = sum(share for (first, last), share in bad.items() if first >= ago > last)
        all_of_it = 10.0 * DEVICES
        good, total = good + all_of_it * (1 - lost), total + all_of_it
        good_s = all_of_it * (1 - lost)
        slices.append(Slice(BEGAN + number * 10, 1, good_s, all_of_it, 4, 4, good, total))
    return SliceLine(slices), float(BEGAN + count * 10 - 1)


@pytest.mark.parametrize(
    ("minutes", "bad", "severities"),
    [
        (600, {}, []),
        (600, {(50, 0): 1.0}, ["page"]),  # 50 minutes of the last hour, and it goes on
        (600, {(50, 8): 1.0}, []),  # it ended eight minutes ago: the short window is good
        (600, {(35, 0): 1.0}, []),  # 58 % of the hour, 67 % are asked for
        (45, {(40, 0): 1.0}, []),  # a job of 45 minutes has lost 40: less than 2 % of a month
        (45, {(45, 0): 1.0}, ["page"]),
        (5000, {(300, 0): 0.6}, ["page"]),  # 5 % of the budget in six hours
        (6000, {(5000, 0): 0.1}, ["ticket"]),
        (6000, {(5000, 0): 0.06}, ["ticket"]),
        (6000, {(5000, 0): 0.04}, []),
    ],
)
def test_who_is_asked_for(
    minutes: float, bad: dict[tuple[float, float], float], severities: list[str]
) -> None:
    slices, now = line(minutes, bad)
    alerts = burning(slo("0.95", 28), slices, now)
    assert sorted({alert.pair.severity for alert in alerts}) == severities
    assert all(alert.rate >= alert.limit for alert in alerts)


def test_planned_time_burns_nothing() -> None:
    slices, now = line(600, {(50, 0): 1.0})
    assert burning(slo("0.95", 28), slices, now, [(now - 3000, now - 300)]) == ()


def test_what_cannot_be_reached_is_not_asked_for() -> None:
    slices, now = line(5000, {(5000, 0): 1.0})
    assert {alert.pair.severity for alert in burning(slo("0.5", 28), slices, now)} == {"ticket"}
