"""Converts schedules to Alertmanager time intervals."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stepwatch.collector.slo.asked.yaml_lines import Place

from .site_schema import Schedule, Times

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY = 24 * 60
Span = tuple[int, int, int]
"""Weekday number (Monday is 0), and begin and end in minutes from its midnight."""


def problems(name: str, schedule: Schedule) -> Iterator[tuple[Place, str]]:
    """Yield the schedule's problems: the place below it, and a text with the remedy."""
    try:
        ZoneInfo(schedule.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        problem = f"there is no time zone {schedule.zone[:80]!r}; write such as Europe/Berlin"
        yield ("zone",), problem
    wrong = list(_wrong_times(schedule))
    yield from wrong
    if not wrong and _always(schedule):
        problem = f"schedule {name} never ends and mutes all notifications; leave some hours out"
        yield ("times",), problem


def _wrong_times(schedule: Schedule) -> Iterator[tuple[Place, str]]:
    for number, times in enumerate(schedule.times):
        place: Place = ("times", number)
        for day in times.days:
            if day not in DAYS:
                yield (*place, "days"), f"{day[:80]!r} is not a day; write such as monday"
        clock = {"from": _minutes(times.from_), "until": _minutes(times.until)}
        for key, minutes in clock.items():
            if minutes is None:
                yield (*place, key), f"{key}: write a time of day, such as '18:00'"
        if clock["from"] is not None and clock["from"] == clock["until"]:
            yield (*place, "until"), "until: it never ends; for a whole day write 00:00 until 24:00"
        elif clock["from"] == _DAY:
            yield (*place, "from"), "from: no day has a time after 24:00; write '00:00'"


def intervals(name: str, schedule: Schedule) -> dict[str, Any]:
    """Return the `time_intervals` entry for a valid schedule."""
    by_hours: dict[tuple[int, int], list[str]] = {}
    for day, first, until in sorted(_spans(schedule)):
        by_hours.setdefault((first, until), []).append(DAYS[day])
    return {
        "name": name,
        "time_intervals": [
            {
                "times": [{"start_time": _clock(first), "end_time": _clock(until)}],
                "weekdays": days,
                "location": schedule.zone,
            }
            for (first, until), days in by_hours.items()
        ],
    }


def _spans(schedule: Schedule) -> set[Span]:
    return {span for times in schedule.times for span in _spans_of(times)}


def _spans_of(times: Times) -> Iterator[Span]:
    """Yield spans within one day: a span across midnight is split."""
    first, until = _minutes(times.from_) or 0, _minutes(times.until) or 0
    for day in times.days or DAYS:
        number = DAYS.index(day)
        if first < until:
            yield number, first, until
            continue
        yield number, first, _DAY
        if until:
            yield (number + 1) % 7, 0, until


def never_end(schedules: Collection[Schedule]) -> bool:
    """Return whether valid schedules in one time zone cover the whole week together."""
    return len({schedule.zone for schedule in schedules}) == 1 and _always(*schedules)


def _always(*schedules: Schedule) -> bool:
    """Return whether the schedules cover the whole week."""
    covered = {
        day * _DAY + minute
        for schedule in schedules
        for day, first, until in _spans(schedule)
        for minute in range(first, until)
    }
    return len(covered) == 7 * _DAY


def _minutes(text: str) -> int | None:
    """Return minutes since midnight; None if the text is not a time of day."""
    match = re.fullmatch(r"(\d{2}):([0-5]\d)", text)
    minutes = None if match is None else int(match[1]) * 60 + int(match[2])
    return minutes if minutes is not None and minutes <= _DAY else None


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
