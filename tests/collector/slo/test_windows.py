"""Windows of the calendar, against counting days one by one; clocks are set, years leap."""

from __future__ import annotations

import calendar
import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.slo.asked.windows import (
    CALENDAR_UNITS,
    CalendarWindow,
    RollingWindow,
    RunWindow,
    shortest_seconds,
)

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
MONTHS = {"M": 1, "Q": 3, "Y": 12}
BEGAN = datetime(2019, 1, 1, tzinfo=UTC).timestamp()
ENDS = datetime(2033, 1, 1, tzinfo=UTC).timestamp()


def boundaries(window: CalendarWindow) -> list[float]:
    """All beginnings of its periods until 2034, day after day or month after month."""
    edges, day, turn = [], window.start.date(), 0
    while day < date(2034, 1, 1):
        local = datetime.combine(day, window.start.time(), ZoneInfo(window.zone))
        edges.append(local.astimezone(UTC).timestamp())
        turn += 1
        if window.unit in ("d", "w"):
            for _ in range(window.periods * (7 if window.unit == "w" else 1)):
                day += timedelta(days=1)
        else:
            year, month = window.start.year, window.start.month
            for _ in range(turn * window.periods * MONTHS[window.unit]):
                year, month = (year, month + 1) if month < 12 else (year + 1, 1)
            last = calendar.monthrange(year, month)[1]
            day = date(year, month, min(window.start.day, last))
    return edges


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CALENDAR_UNITS),
    st.integers(1, 3),
    st.dates(date(2018, 1, 1), date(2018, 12, 31)),
    st.integers(0, 23),
    st.sampled_from(ZONES),
    st.floats(BEGAN, ENDS),
)
def test_a_period_is_the_one_that_counting_finds(
    unit: str, periods: int, day: date, hour: int, zone: str, now: float
) -> None:
    start = datetime(day.year, day.month, day.day, hour)
    window = CalendarWindow(periods, unit, start, zone)
    begins = window.begins(now, 0.0)
    assert begins == max(boundary for boundary in boundaries(window) if boundary <= now)


def timestamp(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_days_on_which_clocks_are_set() -> None:
    window = CalendarWindow(1, "d", datetime(2026, 1, 1), "Europe/Berlin")
    spring, autumn = (
        timestamp("2026-03-29T12:00", "Europe/Berlin"),
        timestamp("2026-10-25T12:00", "Europe/Berlin"),
    )
    assert spring - window.begins(spring, 0.0) == 11 * 3600
    assert autumn - window.begins(autumn, 0.0) == 13 * 3600


def test_months_without_a_31st() -> None:
    window = CalendarWindow(1, "M", datetime(2024, 1, 31), "UTC")
    assert window.begins(timestamp("2024-03-01T00:00"), 0.0) == timestamp("2024-02-29T00:00")
    assert window.begins(timestamp("2025-03-01T00:00"), 0.0) == timestamp("2025-02-28T00:00")
    assert window.begins(timestamp("2025-03-31T00:00"), 0.0) == timestamp("2025-03-31T00:00")


def test_a_moment_before_the_start_is_in_a_period_too() -> None:
    window = CalendarWindow(1, "Q", datetime(2026, 1, 1), "UTC")
    assert window.begins(timestamp("2025-12-24T00:00"), 0.0) == timestamp("2025-10-01T00:00")


def test_rolling_and_whole_runs() -> None:
    assert RollingWindow(60).begins(100.0, 0.0) == 40.0
    assert RunWindow().begins(100.0, 7.0) == 7.0
    assert (RunWindow().words, RollingWindow(28 * 86_400).words) == ("the run", "the last 28 days")


@pytest.mark.parametrize(("unit", "days"), [("d", 1), ("w", 7), ("M", 28), ("Q", 89), ("Y", 365)])
def test_a_period_is_never_shorter_than_is_said(unit: str, days: int) -> None:
    window = CalendarWindow(1, unit, datetime(2018, 1, 1), "Europe/Berlin")
    edges = boundaries(window)
    shortest = min(later - earlier for earlier, later in itertools.pairwise(edges))
    assert shortest_seconds(window) <= shortest + 3600.0
    assert shortest_seconds(window) >= (days - 1) * 86_400
