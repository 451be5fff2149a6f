"""Accounts of a job by day: small enough to be kept for ever. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.redone import is_redone, redoable
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.signals.arrays import Integers, Vector

from .causes import CAUSES, Spent
from .partition import MICROSECONDS, STALL_SECONDS, STALL_TIMES, Accounts, partition

DAY_SECONDS = 86_400
_GOODPUT = "goodput"
Days = dict[int, Integers]
"""Microseconds (causes,) by the Unix time at which the day begins, UTC."""


class Tail(NamedTuple):
    """Device-seconds since the last step of an attempt, which no step holds yet."""

    cause: Spent
    end_s: float
    seconds: float


def add_to_days(days: Days, ends_s: Vector, accounts: Accounts) -> None:
    """Add accounts of steps (steps, causes) to `days`, in place."""
    starts = (ends_s // DAY_SECONDS).astype(np.int64) * DAY_SECONDS
    for start in np.unique(starts).tolist():
        sums = accounts[starts == start].sum(axis=0)
        days[start] = days.get(start, np.zeros(len(CAUSES), dtype=np.int64)) + sums


def job_days(attempts: Mapping[object, AttemptSteps], tails: Iterable[Tail] = ()) -> Days:
    """All days of a job: of steps that were dropped, of those held, and of the time since."""
    days: Days = {}
    for attempt in attempts.values():
        for start, sums in _dropped(attempt).items():
            days[start] = days.get(start, np.zeros(len(CAUSES), dtype=np.int64)) + sums
        add_to_days(days, attempt.steps.end_s, partition(attempt))
    for tail in tails:
        one = np.zeros((1, len(CAUSES)), dtype=np.int64)
        one[0, CAUSES.index(tail.cause)] = int(tail.seconds * MICROSECONDS)
        add_to_days(days, np.array([tail.end_s]), one)
    return days


def _dropped(attempt: AttemptSteps) -> Days:
    """Days of steps that are held no longer. Of those that a later attempt redoes, what was
    productive counts as redone, by slices; what they waited stays where it was."""
    if attempt.dropped is None:
        return {}
    days = {start: sums.copy() for start, sums in attempt.dropped.accounts.items()}
    rows, productive = redoable(attempt, _GOODPUT), CAUSES.index(Spent.PRODUCTIVE)
    rows = rows[is_redone(attempt, _GOODPUT)]
    lost = ((rows["kept"] - rows["redone"]) * MICROSECONDS).astype(np.int64)
    for start, more in zip((rows["start_s"] // DAY_SECONDS).tolist(), lost.tolist(), strict=True):
        day = days.get(start * DAY_SECONDS)
        if day is not None:
            moved = min(more, int(day[productive]))
            day[productive] -= moved
            day[CAUSES.index(Spent.REDONE)] += moved
    return days


def tail_of(attempt: AttemptSteps, until_s: float, *, waits: bool) -> Tail | None:
    """The time from the last step of an attempt until `until_s`, Unix seconds, if it is more than
    a step may take.

    `waits` says that its ranks live, or that it will be started again: then nothing moves.
    """
    steps = attempt.steps
    if not len(steps.end_s):
        return None
    usual = attempt.baseline_seconds[-1] if len(attempt.baseline_seconds) else np.nan
    least = max(STALL_SECONDS, 0.0 if np.isnan(usual) else STALL_TIMES * float(usual))
    since = until_s - float(steps.end_s[-1])
    if since <= least:
        return None
    cause = Spent.STALL if waits else Spent.IDLE_ALLOCATED
    return Tail(cause, until_s, since * steps.world)
