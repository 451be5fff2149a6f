"""Keeps the accounts of jobs: what became of their device-time, by day."""

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
"""Between two looks at a job that runs, of many and of few steps: an account is no alarm."""
_STEPS_A_SECOND = 100
"""Steps held for which a job is looked at a second later: looks take so much of a CPU at most."""
_NOISE_MICROSECONDS = 1_000_000
"""By what an end that moved may make a day shorter."""


@dataclass
class Accounts:
    """The days of one job as they were looked at last, and as they are stored."""

    days: Days = field(default_factory=dict)
    stored: Days = field(default_factory=dict)
    looked_s: float = -math.inf
    """Monotonic seconds."""
    reported_owner: dict[str, str] = field(default_factory=dict)
    """Who an attempt said that it is accounted to; the next one has not said it at first."""
    _owner: dict[str, str] = field(default_factory=dict)
    """Who the newest day is stored for."""
    _newest: tuple[int, dict[str, str]] = field(default_factory=lambda: (0, {}))
    """The newest day that was looked at, and for whom."""

    def look(
        self,
        job: LiveJob,
        attempts: Mapping[RunKey, AttemptSteps],
        tails: Mapping[RunKey, Sequence[Tail]],
        monotonic_s: float,
        *,
        ended: bool,
        owners: Sequence[OwnerRule] = (),
    ) -> list[AccountDay]:
        """The days that changed since they were stored, at monotonic seconds `monotonic_s`,
        with the owner that they are accounted to.

        Of a job that runs they are looked at once a minute, of one with few steps once in five
        seconds. Call `accept` once they are stored.
        """
        if not ended and monotonic_s - self.looked_s < _every_seconds(attempts.values()):
            return []
        self.looked_s = monotonic_s
        self.days = job_days(attempts.values(), itertools.chain(*tails.values()))
        job_class = job.current.job_class
        self.reported_owner = said_of(job.current.tracker(RunFacts).known()) or self.reported_owner
        owner = owner_of(job.name, self.reported_owner, owners)
        owner_field = {OWNER: owner} if owner else {}
        self._newest = max(self.days, default=0), owner
        return [
            AccountDay(job.name, start, job_class, {**document_of(entry), **owner_field})
            for start, entry in sorted(self.days.items())
            if _is_news(entry, self.stored.get(start)) or self._is_other_owner(start)
        ]

    def _is_other_owner(self, day_s: int) -> bool:
        """Whether the newest day is stored, for somebody else."""
        return (day_s, self._owner) != self._newest and day_s == self._newest[0]

    @property
    def owner(self) -> dict[str, str]:
        """Whom the newest day is accounted to: some of `owners.FIELDS`."""
        return self._newest[1] or self._owner

    def seconds(self) -> dict[str, float]:
        """Device-seconds of all days by cause, as they are stored; of a job that runs up to a
        minute ago."""
        sums = np.sum([*self.stored.values()], axis=0) if self.stored else np.zeros(len(CAUSES))
        return {str(cause): float(sums[index]) / MICROSECONDS for index, cause in enumerate(CAUSES)}

    def cost(self, rates: RateCard | None, job_class: str) -> Cost | None:
        """What the device-time of all days cost, as they are stored; None without a rate card."""
        if rates is None:
            return None
        causes, tokens = len(CAUSES), COLUMNS.index("tokens")
        by_day = {
            day: float(entry[:causes].sum()) / MICROSECONDS for day, entry in self.stored.items()
        }
        money, without = cost_of(by_day, job_class, rates)
        token_count = sum(int(entry[tokens]) for entry in self.stored.values())
        return Cost(money, rates.currency, without, token_count)

    def restore(self, days: Iterable[AccountDay], monotonic_s: float) -> None:
        """Take up what an earlier collector stored, as if it had been looked at now; a day that is
        damaged is made anew."""
        for day in days:
            with contextlib.suppress(ValueError):
                self.stored[day.day_s] = entry_of(day.document)
                self.looked_s = monotonic_s
                self.reported_owner = self._owner = owner_in(day.document)

    def accept(self) -> None:
        """What was looked at last is stored."""
        for start, entry in self.days.items():
            if _is_news(entry, self.stored.get(start)):
                self.stored[start] = entry
        self._owner = self._newest[1]


def _every_seconds(attempts: Iterable[AttemptSteps]) -> float:
    held_steps = sum(len(attempt.steps.end_s) for attempt in attempts)
    return min(max(held_steps / _STEPS_A_SECOND, LEAST_SECONDS), EVERY_SECONDS)


def _is_news(entry: Integers, stored: Integers | None) -> bool:
    """Whether a day changed. Less time than is stored was allocated to a day of which the log no
    longer holds all: what is stored stays."""
    if stored is None:
        return True
    stored_sum, causes = int(stored[: len(CAUSES)].sum()), int(entry[: len(CAUSES)].sum())
    return causes >= stored_sum - _NOISE_MICROSECONDS and not np.array_equal(entry, stored)
