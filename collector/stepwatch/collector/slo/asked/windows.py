"""SLO windows: rolling, calendar, or the whole run. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

CALENDAR_UNITS = ("d", "w", "M", "Q", "Y")
_MONTHS = {"M": 1, "Q": 3, "Y": 12}
_DAYS = {"d": 1, "w": 7}


class RollingWindow(NamedTuple):
    """The last `seconds`."""

    seconds: int

    def begins(self, now_s: float, first_s: float) -> float:
        """Return the start of the window that contains `now_s`, Unix seconds."""
        return now_s - self.seconds

    @property
    def words(self) -> str:
        """The window in plain words."""
        return f"the last {_span(self.seconds)}"


class CalendarWindow(NamedTuple):
    """Calendar periods of `periods` units each from `start`, by the clocks of `zone`.

    `unit` is in `CALENDAR_UNITS`. `start` is a local time: a day has 23 or 25 hours at a clock
    change. A period in months ends on the last day of a month that lacks the start day.
    """

    periods: int
    unit: str
    start: datetime
    zone: str

    def begins(self, now_s: float, first_s: float) -> float:
        """Return the start of the period that contains `now_s`, Unix seconds.

        Months from 31 January on, at 1 March: the period began on 28 February, or 29.
        """
        zone = ZoneInfo(self.zone)
        local = datetime.fromtimestamp(now_s, zone).replace(tzinfo=None)
        if self.unit in _DAYS:
            days = _DAYS[self.unit] * self.periods
            number = (local - self.start) // timedelta(days=days)
        else:
            months = (local.year - self.start.year) * 12 + local.month - self.start.month
            number = months // (_MONTHS[self.unit] * self.periods)
        # Local clocks are set back and months are short: check the previous and next period, too.
        moments = (self._begin(period, zone) for period in range(number + 1, number - 3, -1))
        return next(moment for moment in moments if moment <= now_s)

    def _begin(self, number: int, zone: ZoneInfo) -> float:
        if self.unit in _DAYS:
            local = self.start + number * timedelta(days=_DAYS[self.unit] * self.periods)
        else:
            local = _plus_months(self.start, number * _MONTHS[self.unit] * self.periods)
        return local.replace(tzinfo=zone).astimezone(UTC).timestamp()

    @property
    def words(self) -> str:
        """The window in plain words."""
        unit = {"d": "day", "w": "week", "M": "month", "Q": "quarter", "Y": "year"}[self.unit]
        period = f"each {unit}" if self.periods == 1 else f"each {self.periods} {unit}s"
        return f"{period} of the calendar ({self.zone})"


class RunWindow(NamedTuple):
    """The whole run so far."""

    def begins(self, now_s: float, first_s: float) -> float:
        """Return the start of the run, Unix seconds."""
        return min(first_s, now_s)

    @property
    def words(self) -> str:
        """The window in plain words."""
        return "the run"


Window = RollingWindow | CalendarWindow | RunWindow


def shortest_seconds(window: Window) -> float:
    """Return a window's least length, in which burn must be reachable; infinite for a run."""
    if isinstance(window, RollingWindow):
        return float(window.seconds)
    if isinstance(window, RunWindow):
        return math.inf
    days = {"d": 1, "w": 7, "M": 28, "Q": 89, "Y": 365}[window.unit] * window.periods
    return days * 86_400.0 - (3600.0 if window.unit == "d" else 0.0)


def longest_seconds(window: Window) -> float:
    """Return the greatest length of a window; infinite for a run."""
    if isinstance(window, RollingWindow):
        return float(window.seconds)
    if isinstance(window, RunWindow):
        return math.inf
    days = {"d": 1, "w": 7, "M": 31, "Q": 92, "Y": 366}[window.unit] * window.periods
    return days * 86_400.0 + 3600.0


def _plus_months(start: datetime, months: int) -> datetime:
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    first = start.replace(year=year, month=month + 1, day=1)
    next_month = datetime(year + (month == 11), (month + 1) % 12 + 1, 1)
    last_day = (next_month - timedelta(days=1)).day
    return first.replace(day=min(start.day, last_day))


def _span(seconds: int) -> str:
    days, remainder = divmod(seconds, 86_400)
    if not remainder:
        return f"{days} days" if days != 1 else "day"
    hours, remainder = divmod(seconds, 3600)
    return f"{hours} h" if not remainder else f"{seconds // 60} min"
