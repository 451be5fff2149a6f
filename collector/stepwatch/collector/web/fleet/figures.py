"""Figures of the whole fleet: jobs by state, devices, goodput and money today, pages this week."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.incidents.states import ALERT, MERGED
from stepwatch.collector.job_states import ENDED, GOING_ON, STALLED
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.rates import HOUR, RateCard
from stepwatch.collector.slo.waste import CAUSES, DAY_SECONDS, MICROSECONDS, Spent
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.web.schema.job import Amount, JobLineAnswer
from stepwatch.collector.web.schema.live import FleetAnswer

from .entry import today
from .jobs import JobLines

STORED_SECONDS = 10.0
"""Time for which figures from the store serve all requests; accounts are up to a minute old."""
WEEK_SECONDS = 7 * DAY_SECONDS
MOST_INCIDENTS = 2000
"""Incidents of a week that are read; with more the number of pages is a lower bound."""


class _Stored(NamedTuple):
    """Figures from the store, and the monotonic moment of their reading."""

    read_s: float
    goodput: float | None
    cost: Amount | None
    pages: int


class FleetFigures:
    """Reads the figures; thread-safe."""

    def __init__(self, service: Service, lines: JobLines) -> None:
        self._service, self._lines = service, lines
        self._reading = threading.Lock()
        self._kept: _Stored | None = None

    def read(self) -> FleetAnswer:
        """Return the figures.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        lines, stored = self._lines.read(), self._stored()
        states = Counter(line["state"] for line in lines)
        return {
            "as_of": self._service.now(),
            "jobs": {**dict.fromkeys((*GOING_ON, *ENDED), 0), **states},
            "devices": {
                "busy": _devices(lines, tuple(state for state in GOING_ON if state != STALLED)),
                "known": _devices(lines, tuple(state for state in states if state not in ENDED)),
            },
            "goodput_today": stored.goodput,
            "cost_today": stored.cost,
            "pages_this_week": stored.pages,
            "open_incidents": sum(line["open_incidents"] or 0 for line in lines),
        }

    def _stored(self) -> _Stored:
        with self._reading:
            if self._kept is None or time.monotonic() - self._kept.read_s > STORED_SECONDS:
                self._kept = self._read_stored()
            return self._kept

    def _read_stored(self) -> _Stored:
        now, store = self._service.now(), self._service.store
        day = today(now)
        days = store.account_days(day, day + DAY_SECONDS)
        incidents = store.incidents.newest(limit=MOST_INCIDENTS, since_s=now - WEEK_SECONDS)
        pages = sum(
            incident.get("severity", ALERT) == ALERT and incident.get("state") != MERGED
            for incident in incidents
        )
        cost = cost_of_days(days, self._service.objectives.rates)
        return _Stored(time.monotonic(), goodput_of_days(days), cost, pages)


def _devices(lines: Iterable[JobLineAnswer], states: Sequence[str]) -> int:
    return sum(line["devices"] for line in lines if line["state"] in states)


def goodput_of_days(days: Iterable[AccountDay]) -> float | None:
    """Return the productive share of all allocated device time; None if there was none."""
    rows = [[int(day.document.get(cause, 0)) for cause in CAUSES] for day in days]
    sums = np.sum(rows, axis=0) if rows else np.zeros(len(CAUSES))
    allocated = float(sums.sum())
    return round(float(sums[CAUSES.index(Spent.PRODUCTIVE)]) / allocated, 4) if allocated else None


def cost_of_days(days: Iterable[AccountDay], rates: RateCard | None) -> Amount | None:
    """Return the price of all allocated device time; None if any of it has no rate."""
    if rates is None:
        return None
    amount = 0.0
    for day in days:
        rate = rates.on(day.day_s, day.job_class)
        if rate is None:
            return None
        micro = sum(int(day.document.get(cause, 0)) for cause in CAUSES)
        amount += rate * micro / MICROSECONDS / HOUR
    return {"amount": round(amount, 2), "currency": rates.currency}
