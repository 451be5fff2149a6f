"""Schedules become time intervals of Alertmanager that cover the same minutes."""

from __future__ import annotations

from collections.abc import Mapping

from stepwatch.alerts.routes.schedules import DAYS, intervals
from stepwatch.alerts.routes.site_schema import Schedule


def covered_hours(schedule: Schedule) -> set[tuple[str, int]]:
    """Hours of the week that the time intervals hold."""
    minutes = set()
    for interval in intervals("any", schedule)["time_intervals"]:
        (times,) = interval["times"]
        first, until = (int(times[key][:2]) for key in ("start_time", "end_time"))
        assert first < until  # Alertmanager refuses times past midnight
        minutes |= {(day, hour) for day in interval["weekdays"] for hour in range(first, until)}
    return minutes


def schedule(*times: Mapping[str, object]) -> Schedule:
    return Schedule.model_validate({"zone": "Europe/Berlin", "times": list(times)})


def test_a_night_of_sunday_ends_on_monday() -> None:
    hours = covered_hours(schedule({"days": ["sunday"], "from": "22:00", "until": "02:00"}))
    assert hours == {("sunday", 22), ("sunday", 23), ("monday", 0), ("monday", 1)}


def test_without_days_it_is_every_day() -> None:
    hours = covered_hours(schedule({"from": "12:00", "until": "13:00"}))
    assert hours == {(day, 12) for day in DAYS}


def test_a_whole_day_and_a_night_add_up() -> None:
    day = {"days": ["saturday"], "from": "00:00", "until": "24:00"}
    hours = covered_hours(schedule(day, {"days": ["friday"], "from": "20:00", "until": "06:00"}))
    assert len(hours) == 24 + 4
    assert {
        interval["location"] for interval in intervals("n", schedule(day))["time_intervals"]
    } == {"Europe/Berlin"}
