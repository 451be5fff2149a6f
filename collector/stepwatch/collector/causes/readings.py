"""Readings of nodes and ranks: the newest seconds closely, the minutes before sparsely."""

from __future__ import annotations

from typing import Any

import numpy as np

NEWEST, EARLIER, EVERY = 16, 32, 8
"""Readings kept of each subject: the newest, and one of every eight before: four minutes."""

_MOST = float(1 << 63)
"""No counter reaches it; what claims to is not a count."""

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]


class Readings:
    """A bounded number of subjects (nodes, ranks), each with the same fields; NaN is unknown.

    Args:
        fields: names of the fields.
        limit: most subjects held; further ones are not taken.
    """

    def __init__(self, fields: tuple[str, ...], limit: int) -> None:
        self.fields = fields
        self._limit = limit
        self._at: dict[Any, int] = {}
        self._count = np.zeros(0, dtype=np.int64)
        self._times = np.full((0, NEWEST + EARLIER), np.nan)
        self._values = np.full((0, NEWEST + EARLIER, len(fields)), np.nan, dtype=np.float32)

    def __contains__(self, subject: object) -> bool:
        return subject in self._at

    def add(self, subject: int | str, time_s: float, values: Values) -> None:
        """Take one reading of `subject` at `time_s` (monotonic on its node), shape (fields,)."""
        at = self._at.get(subject)
        if at is None:
            if len(self._at) >= self._limit:
                return
            at = self._at[subject] = len(self._at)
            self._make_room()
        count = int(self._count[at])
        self._write(at, count % NEWEST, time_s, values)
        if count % EVERY == 0:
            self._write(at, NEWEST + count // EVERY % EARLIER, time_s, values)
        self._count[at] = count + 1

    def over(self, subjects: list[Any], seconds: float) -> tuple[Table, Table]:
        """Means (subjects, fields) over the newest `seconds` of each, and over what came before."""
        at = np.array([self._at.get(subject, -1) for subject in subjects], dtype=np.int64)
        known = at >= 0
        now = np.full((len(at), len(self.fields)), np.nan)
        before = now.copy()
        if known.any():
            times, values = self._times[at[known]], self._values[at[known]].astype(np.float64)
            ages = np.nanmax(times, axis=1, keepdims=True) - times
            now[known] = _means(values, ages <= seconds)
            before[known] = _means(values, ages > seconds + EVERY)
        return now, before

    def _write(self, at: int, slot: int, time_s: float, values: Values) -> None:
        self._times[at, slot] = time_s
        with np.errstate(over="ignore"):
            self._values[at, slot] = values

    def _make_room(self) -> None:
        if len(self._at) <= len(self._count):
            return
        more = max(8, len(self._count))
        self._count = np.concatenate([self._count, np.zeros(more, dtype=np.int64)])
        times = np.full((more, *self._times.shape[1:]), np.nan)
        self._times = np.concatenate([self._times, times])
        values = np.full((more, *self._values.shape[1:]), np.nan, dtype=np.float32)
        self._values = np.concatenate([self._values, values])


def _means(
    values: np.ndarray[tuple[int, int, int], np.dtype[np.float64]],
    wanted: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
) -> Table:
    """Mean over readings (subjects, readings, fields) of what is wanted and finite."""
    counted = wanted[:, :, None] & np.isfinite(values)
    count = counted.sum(axis=1)
    total = np.where(counted, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class Rates:
    """Turns counters into growth per second; NaN on the first reading and where one went back."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: dict[Any, tuple[float, Values]] = {}

    def of(self, subject: object, time_s: float, counters: Values) -> Values:
        """Growth per second since the previous reading of `subject`."""
        counters = np.where((counters >= 0) & (counters < _MOST), counters, np.nan)
        before = self._last.get(subject)
        if before is None and len(self._last) >= self._limit:
            return np.full_like(counters, np.nan)
        self._last[subject] = (time_s, counters)
        if before is None or time_s <= before[0]:
            return np.full_like(counters, np.nan)
        grown = counters - before[1]
        return np.where(grown >= 0, grown / (time_s - before[0]), np.nan)
