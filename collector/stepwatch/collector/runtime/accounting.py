"""Keeps the accounts of jobs: what became of their device-time, by day."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.waste import (
    CAUSES,
    Days,
    Tail,
    document_of,
    entry_of,
    job_days,
    tail_of,
)
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.signals.arrays import Integers

EVERY_SECONDS = 60.0
"""Between two looks at a job that runs: an account is no alarm."""
_NOISE_MICROSECONDS = 1_000_000
"""By what an end that moved may make a day shorter."""


@dataclass
class Accounts:
    """The days of one job as they were looked at last, and as they are stored."""

    days: Days = field(default_factory=dict)
    stored: Days = field(default_factory=dict)
    looked_s: float = -math.inf
    """Monotonic seconds."""

    def look(
        self,
        job: LiveJob,
        attempts: Mapping[RunKey, AttemptSteps],
        moment: tuple[float, float],
        *,
        ended: bool,
    ) -> list[AccountDay]:
        """The days that changed since they were stored, at wall and monotonic seconds `moment`.

        Of a job that runs they are looked at once a minute. Call `accept` once they are stored.
        """
        wall_s, monotonic_s = moment
        if not ended and monotonic_s - self.looked_s < EVERY_SECONDS:
            return []
        self.looked_s = monotonic_s
        self.days = job_days(attempts.values(), _tails(job, attempts, wall_s, ended=ended))
        job_class = job.current.job_class
        return [
            AccountDay(job.name, start, job_class, document_of(entry))
            for start, entry in sorted(self.days.items())
            if _is_news(entry, self.stored.get(start))
        ]

    def restore(self, known: Iterable[AccountDay]) -> None:
        """Take up what an earlier collector stored; a day that is damaged is made anew."""
        for day in known:
            with contextlib.suppress(ValueError):
                self.stored[day.day_s] = entry_of(day.document)

    def accept(self) -> None:
        """What was looked at last is stored."""
        for start, entry in self.days.items():
            if _is_news(entry, self.stored.get(start)):
                self.stored[start] = entry


def _is_news(entry: Integers, stored: Integers | None) -> bool:
    """Whether a day changed. Less time than is stored was allocated to a day of which the log no
    longer holds all: what is stored stays."""
    if stored is None:
        return True
    known, causes = int(stored[: len(CAUSES)].sum()), int(entry[: len(CAUSES)].sum())
    return causes >= known - _NOISE_MICROSECONDS and not np.array_equal(entry, stored)


def _tails(
    job: LiveJob, attempts: Mapping[RunKey, AttemptSteps], now_s: float, *, ended: bool
) -> Iterator[Tail]:
    """Time after the last step of each run: until the next one begins, or until now."""
    runs = [*job.runs()]
    for place, key in enumerate(runs):
        if key not in attempts:
            continue
        if place + 1 < len(runs):
            following = job.runs()[runs[place + 1]][0]
            until_s = following.began_s or 0.0
        else:
            until_s = 0.0 if ended else now_s
        tail = tail_of(attempts[key], until_s, waits=True)
        if tail is not None:
            yield tail
