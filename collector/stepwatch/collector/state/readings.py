"""Node and rank readings: dense for the newest seconds, sparse for the minutes before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

NEWEST, EARLIER, EVERY = 16, 32, 8
"""Readings kept per subject: the newest, and every eighth earlier one: four minutes."""
KEPT = NEWEST + EVERY * EARLIER + EVERY
"""Reading count after which no earlier reading of the subject remains."""

_MOST = float(1 << 63)
"""No counter reaches this value; a larger value is invalid."""

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Places = np.ndarray[tuple[int], np.dtype[np.int64]]


class Subjects:
    """Numbers subjects (nodes, ranks) in arrival order, at most `limit`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._at: dict[Any, int] = {}

    def __contains__(self, subject: object) -> bool:
        return subject in self._at

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._at)

    def lookup(self, subjects: Sequence[Any] | Places) -> Places:
        """Return each subject's number (subjects,), -1 without one."""
        return np.fromiter(map(self._at.get, subjects, repeat(-1)), np.int64, len(subjects))

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """Return each subject's number (subjects,); new subjects get one while there is room."""
        numbers = self.lookup(subjects)
        for index in np.flatnonzero(numbers < 0).tolist():
            if len(self._at) >= self._limit and subjects[index] not in self._at:
                continue
            numbers[index] = self._at.setdefault(subjects[index], len(self._at))
        return numbers


class Ranks(Subjects):
    """Whole-number subjects below the limit, such as ranks, with vectorised lookup."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._places = np.full(0, -1, dtype=np.int64)
        self._count = 0

    def __contains__(self, subject: object) -> bool:
        return isinstance(subject, int) and bool(self.lookup([subject])[0] >= 0)

    def __len__(self) -> int:
        return self._count

    def lookup(self, subjects: Sequence[Any] | Places) -> Places:
        """Return each subject's number (subjects,), -1 without one."""
        wanted = np.asarray(subjects, dtype=np.int64)
        numbers = np.full(len(wanted), -1, dtype=np.int64)
        inside = wanted < len(self._places)
        numbers[inside] = self._places[wanted[inside]]
        return numbers

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """Return each subject's number (subjects,); new subjects get one."""
        wanted = np.asarray(subjects, dtype=np.int64)
        self._places = _with_room(self._places, int(wanted.max(initial=-1)) + 1, -1)
        fresh = wanted[self._places[wanted] < 0]
        if len(fresh):
            _, firsts = np.unique(fresh, return_index=True)
            fresh = fresh[np.sort(firsts)]
            self._places[fresh] = self._count + np.arange(len(fresh))
            self._count += len(fresh)
        return self._places[wanted]


class Readings:
    """Readings for a bounded number of subjects (nodes, ranks), with equal fields; NaN is unknown.

    Args:
        fields: field names.
        limit: maximum subject count; further ones are ignored.
        kind: class that numbers the subjects.
    """

    def __init__(
        self, fields: tuple[str, ...], limit: int, kind: type[Subjects] = Subjects
    ) -> None:
        self.fields = fields
        self._subjects = kind(limit)
        self._count = np.zeros(0, dtype=np.int64)
        self._times = np.full((0, NEWEST + EARLIER), np.nan)
        self._values = np.full((0, NEWEST + EARLIER, len(fields)), np.nan, dtype=np.float32)

    def __contains__(self, subject: object) -> bool:
        return subject in self._subjects

    def add(self, subject: int | str, time_s: float, values: Values) -> None:
        """Add one reading for `subject` at `time_s` (monotonic on its node), shape (fields,)."""
        self.add_all([subject], np.array([time_s]), values[None, :])

    def add_all(self, subjects: Sequence[Any] | Places, times: Values, values: Table) -> None:
        """Add one reading per subject, `values` with shape (subjects, fields)."""
        self.add_at(self.numbered(subjects), times, values)

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """Return each subject's number (subjects,), -1 if there is no room."""
        numbers = self._subjects.numbered(subjects)
        self._make_room()
        return numbers

    def add_at(self, numbers: Places, times: Values, values: Table) -> None:
        """Add one reading per subject, by subject number; -1 is ignored."""
        accepted = numbers >= 0
        numbers, times, values = numbers[accepted], times[accepted], values[accepted]
        count = self._count[numbers]
        self._write(numbers, count % NEWEST, times, values)
        sampled = count % EVERY == 0
        slots = NEWEST + count[sampled] // EVERY % EARLIER
        self._write(numbers[sampled], slots, times[sampled], values[sampled])
        self._count[numbers] = count + 1

    def skip(self, numbers: Places, counts: Places) -> None:
        """Count readings that would be overwritten anyway, one entry per subject number."""
        accepted = numbers >= 0
        self._count[numbers[accepted]] += counts[accepted]

    def over(self, subjects: list[Any], seconds: float) -> tuple[Table, Table]:
        """Return means (subjects, fields) over the newest `seconds`, and over the time before."""
        numbers = self._subjects.lookup(subjects)
        is_known = numbers >= 0
        now = np.full((len(numbers), len(self.fields)), np.nan)
        earlier = now.copy()
        if is_known.any():
            times, values = (
                self._times[numbers[is_known]],
                self._values[numbers[is_known]].astype(np.float64),
            )
            ages = np.nanmax(times, axis=1, keepdims=True) - times
            now[is_known] = _means(values, ages <= seconds)
            earlier[is_known] = _means(values, ages > seconds + EVERY)
        return now, earlier

    def _write(self, numbers: Places, slots: Places, times: Values, values: Table) -> None:
        self._times[numbers, slots] = times
        with np.errstate(over="ignore"):
            self._values[numbers, slots] = values

    def _make_room(self) -> None:
        count = len(self._subjects)
        self._count = _with_room(self._count, count, 0)
        self._times = _with_room(self._times, count, np.nan)
        self._values = _with_room(self._values, count, np.nan)


def _with_room(
    array: np.ndarray[Any, np.dtype[Any]], count: int, empty: float
) -> np.ndarray[Any, np.dtype[Any]]:
    """Return `array` with at least `count` rows, a power of two, so few additions copy it."""
    if count <= len(array):
        return array
    more = max(8, 1 << (count - 1).bit_length()) - len(array)
    return np.concatenate([array, np.full((more, *array.shape[1:]), empty, dtype=array.dtype)])


def _means(
    values: np.ndarray[tuple[int, int, int], np.dtype[np.float64]],
    wanted: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
) -> Table:
    """Return the mean over wanted, finite readings (subjects, readings, fields)."""
    counted = wanted[:, :, None] & np.isfinite(values)
    count = counted.sum(axis=1)
    total = np.where(counted, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class Rates:
    """Converts counters to growth per second; NaN for the first reading and after a decrease.

    Args:
        fields: counters per subject.
        limit: maximum subject count; further ones stay unknown.
        kind: class that numbers the subjects.
    """

    def __init__(self, fields: int, limit: int, kind: type[Subjects] = Subjects) -> None:
        self._subjects = kind(limit)
        self._times = np.full(0, np.nan)
        self._counters = np.full((0, fields), np.nan)

    def rate(self, subject: object, time_s: float, counters: Values) -> Values:
        """Return the growth per second since the previous reading of `subject`."""
        rates: Values = self.of_all([subject], np.array([time_s]), counters[None, :])[0]
        return rates

    def of_all(self, subjects: Sequence[Any] | Places, times: Values, counters: Table) -> Table:
        """Return the growth for many subjects, `counters` with shape (subjects, fields)."""
        return self.of_at(self.numbered(subjects), times, counters)

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """Return each subject's number (subjects,), -1 if there is no room."""
        numbers = self._subjects.numbered(subjects)
        self._times = _with_room(self._times, len(self._subjects), np.nan)
        self._counters = _with_room(self._counters, len(self._subjects), np.nan)
        return numbers

    def of_at(self, numbers: Places, times: Values, counters: Table) -> Table:
        """Return the growth by subject number, each number once; NaN for -1."""
        counters = np.where((counters >= 0) & (counters < _MOST), counters, np.nan)
        accepted = numbers >= 0
        rates = np.full_like(counters, np.nan)
        seconds = times[accepted] - self._times[numbers[accepted]]
        grown = counters[accepted] - self._counters[numbers[accepted]]
        usable = (seconds > 0)[:, None] & (grown >= 0)
        rates[accepted] = np.where(
            usable, grown / np.where(seconds > 0, seconds, 1.0)[:, None], np.nan
        )
        self._times[numbers[accepted]] = times[accepted]
        self._counters[numbers[accepted]] = counters[accepted]
        return rates
