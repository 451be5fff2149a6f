"""A job's daily accounts, small enough to be kept for ever. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from stepwatch.collector.slo.redone import is_redone, redoable
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.signals.arrays import Integers, Vector

from .causes import CAUSES, Spent
from .partition import MICROSECONDS, Accounts, partition
from .tails import Tail

DAY_SECONDS = 86_400
_GOODPUT = "goodput"
Days = dict[int, Integers]
"""Entries (columns,) by the Unix time at which the day begins, UTC."""


COLUMNS = (*CAUSES, "tokens", "steps")
"""Columns of an entry: microseconds by cause, and tokens and steps that were not redone."""


OWNER = "owner"
"""Key in a document for the job's owner, beside its entry."""


def entries(attempt: AttemptSteps) -> Accounts:
    """Return each step's entry: (steps, columns), in the order of `COLUMNS`."""
    steps = attempt.steps
    counted = ~steps.lost & (steps.observed > 0)
    counts = np.stack([np.where(counted, steps.tokens, 0), counted.astype(np.int64)], axis=1)
    return np.concatenate([partition(attempt), counts], axis=1)


def add_to_days(days: Days, ends_s: Vector, accounts: Accounts) -> None:
    """Add entries for steps that end at `ends_s` (Unix seconds) to `days`, in place."""
    starts = (ends_s // DAY_SECONDS).astype(np.int64) * DAY_SECONDS
    for start in np.unique(starts).tolist():
        sums = accounts[starts == start].sum(axis=0)
        days[start] = days.get(start, _nothing()) + sums


def document_of(entry: Integers) -> dict[str, int]:
    """Return an entry by name, without zeros."""
    return {str(name): int(value) for name, value in zip(COLUMNS, entry, strict=True) if value}


def entry_of(document: Mapping[str, Any]) -> Integers:
    """Return the entry in a document; missing names are 0, and the owner is ignored.

    Raises:
        ValueError: it holds other content.
    """
    columns = {str(name) for name in COLUMNS}
    counts = {name: value for name, value in document.items() if name != OWNER}
    if not all(name in columns and isinstance(value, int) for name, value in counts.items()):
        raise ValueError("no account of a day")
    return np.array([counts.get(str(name), 0) for name in COLUMNS], dtype=np.int64)


def _nothing() -> Integers:
    return np.zeros(len(COLUMNS), dtype=np.int64)


def job_days(attempts: Iterable[AttemptSteps], tails: Iterable[Tail] = ()) -> Days:
    """Return a job's days: dropped steps, steps in memory, and time outside steps."""
    days: Days = {}
    for attempt in attempts:
        for start, sums in _dropped(attempt).items():
            days[start] = days.get(start, _nothing()) + sums
        add_to_days(days, attempt.steps.end_s, entries(attempt))
    for tail in tails:
        moments, seconds = tail.pieces()
        rows = np.zeros((len(moments), len(COLUMNS)), dtype=np.int64)
        rows[:, CAUSES.index(tail.cause)] = (seconds * MICROSECONDS).astype(np.int64)
        add_to_days(days, moments, rows)
    return days


def _dropped(attempt: AttemptSteps) -> Days:
    """Return the days of dropped steps.

    Productive time of redone steps counts as redone, by slice; their waits are unchanged.
    """
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
