"""Daily accounts of each job's device time."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwatch.collector.slo.asked.owners import OwnerRule, owner_in, owner_of, said_of
from stepwatch.collector.slo.asked.rates import RateCard, cost_of
from stepwatch.collector.slo.over_run.sli import Cost
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.waste import (
    CAUSES,
    COLUMNS,
    MICROSECONDS,
    OWNER,
    Days,
    Tail,
    document_of,
    entry_of,
    job_days,
)
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.state.trackers.run_facts import RunFacts
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.signals.arrays import Integers

EVERY_SECONDS, LEAST_SECONDS = 60.0, 5.0
"""Longest and shortest interval between updates for a running job.

An account is not an alarm.
"""
LATE_SHARE = 0.02
"""Share of a job's age that a figure over its whole run may be late: it hides no change."""
_STEPS_A_SECOND = 100
"""Number of steps per second of update interval: it bounds the CPU share."""
_NOISE_MICROSECONDS = 1_000_000
"""Maximum decrease of a day's total when an end time moves."""


@dataclass(frozen=True)
class Accounts:
    """One job's stored days, and the device time's owner."""

    stored: Days = field(default_factory=dict)
    """Days as stored, by their start in Unix seconds."""
    looked_s: float = -math.inf
    """Time of the newest computation, monotonic seconds."""
    reported_owner: dict[str, str] = field(default_factory=dict)
    """The owner that an attempt reported; the next attempt starts without a report."""
    owner: dict[str, str] = field(default_factory=dict)
    """The newest day's owner as stored: some of `owners.FIELDS`."""

    def updated(
        self,
        job: LiveJob,
        attempts: Mapping[RunKey, AttemptSteps],
        tails: Mapping[RunKey, Sequence[Tail]],
        monotonic_s: float,
        *,
        ended: bool,
        owners: Sequence[OwnerRule] = (),
    ) -> tuple[Accounts, list[AccountDay]]:
        """Return the accounts now, and the days with their owner that differ from the stored ones.

        `monotonic_s` is the current monotonic time. A running job is updated once a minute, a young
        one with few steps every five seconds. The accounts are valid once the days are stored.
        """
        if not ended and monotonic_s - self.looked_s < _every_seconds(job, attempts.values()):
            return self, []
        days = job_days(attempts.values(), itertools.chain(*tails.values()))
        job_class, newest_day = job.current.job_class, max(days, default=0)
        reported_owner = said_of(job.current.tracker(RunFacts).facts()) or self.reported_owner
        owner = owner_of(job.name, reported_owner, owners)
        owner_field = {OWNER: owner} if owner else {}
        news = {start for start, entry in days.items() if _is_news(entry, self.stored.get(start))}
        stored = self.stored | {start: days[start] for start in news}
        if owner != self.owner:
            news |= {newest_day} & stored.keys()
        documents = [
            AccountDay(job.name, start, job_class, {**document_of(stored[start]), **owner_field})
            for start in sorted(news)
        ]
        return Accounts(stored, monotonic_s, reported_owner, owner), documents

    def seconds(self) -> dict[str, float]:
        """Return the stored device-seconds over all days by cause.

        Up to a minute old for a running job.
        """
        sums = np.sum([*self.stored.values()], axis=0) if self.stored else np.zeros(len(CAUSES))
        return {str(cause): float(sums[index]) / MICROSECONDS for index, cause in enumerate(CAUSES)}

    def cost(self, rates: RateCard | None, job_class: str) -> Cost | None:
        """Return the stored device time's cost over all days; None without a rate card."""
        if rates is None:
            return None
        causes, tokens = len(CAUSES), COLUMNS.index("tokens")
        by_day = {
            day: float(entry[:causes].sum()) / MICROSECONDS for day, entry in self.stored.items()
        }
        money, without = cost_of(by_day, job_class, rates)
        token_count = sum(int(entry[tokens]) for entry in self.stored.values())
        return Cost(money, rates.currency, without, token_count)

    @classmethod
    def restored(cls, days: Iterable[AccountDay], monotonic_s: float) -> Accounts:
        """Return an earlier collector's days as if computed now; a damaged day is recomputed."""
        stored: Days = {}
        owner: dict[str, str] = {}
        for day in days:
            with contextlib.suppress(ValueError):
                stored[day.day_s] = entry_of(day.document)
                owner = owner_in(day.document)
        return cls(stored, monotonic_s if stored else -math.inf, owner, owner)


def _every_seconds(job: LiveJob, attempts: Iterable[AttemptSteps]) -> float:
    held_steps = sum(len(attempt.steps.end_s) for attempt in attempts)
    return late_seconds(job, max(held_steps / _STEPS_A_SECOND, LEAST_SECONDS))


def late_seconds(job: LiveJob, least_seconds: float) -> float:
    """Return how late a figure over a job's whole run may be, in seconds: at least the given ones.

    A job that began 200 s ago is 4 s late, one that began an hour ago a minute.
    """
    age_s = job.received_s - job.first_s  # minus infinity while unknown
    return min(max(LATE_SHARE * age_s, least_seconds), EVERY_SECONDS)


def _is_news(entry: Integers, stored: Integers | None) -> bool:
    """Return whether a day changed.

    If less time is allocated than stored, the log no longer holds the whole day, so the stored day
    stays.
    """
    if stored is None:
        return True
    stored_sum, causes = int(stored[: len(CAUSES)].sum()), int(entry[: len(CAUSES)].sum())
    return causes >= stored_sum - _NOISE_MICROSECONDS and not np.array_equal(entry, stored)
