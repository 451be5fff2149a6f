"""Readings of nodes and ranks: the newest seconds closely, the minutes before sparsely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

NEWEST, EARLIER, EVERY = 16, 32, 8
"""Readings kept of each subject: the newest, and one of every eight before: four minutes."""
KEPT = NEWEST + EVERY * EARLIER + EVERY
"""Readings of a subject after which nothing is left of what came before them."""

_MOST = float(1 << 63)
"""No counter reaches it; what claims to is not a count."""

Values = np.ndarray[tuple[int], np.dtype[np.float64]]
Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Places = np.ndarray[tuple[int], np.dtype[np.int64]]


class Subjects:
    """Numbers subjects (nodes, ranks) in the order they first come, at most `limit` of them."""

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
        """Number of each subject (subjects,), -1 if it has none."""
        return np.array([self._at.get(subject, -1) for subject in subjects], dtype=np.int64)

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """The same, once those that have none were given one as far as there is room."""
        numbers = self.lookup(subjects)
        for index in np.flatnonzero(numbers < 0).tolist():
            if len(self._at) >= self._limit and subjects[index] not in self._at:
                continue
            numbers[index] = self._at.setdefault(subjects[index], len(self._at))
        return numbers


class Ranks(Subjects):
    """Subjects that are whole numbers below the limit, as ranks are: looked up all at once."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._places = np.full(0, -1, dtype=np.int64)
        self._count = 0

    def __contains__(self, subject: object) -> bool:
        return isinstance(subject, int) and bool(self.lookup([subject])[0] >= 0)

    def __len__(self) -> int:
        return self._count

    def lookup(self, subjects: Sequence[Any] | Places) -> Places:
        """Number of each subject (subjects,), -1 if it has none."""
        wanted = np.asarray(subjects, dtype=np.int64)
        numbers = np.full(len(wanted), -1, dtype=np.int64)
        inside = wanted < len(self._places)
        numbers[inside] = self._places[wanted[inside]]
        return numbers

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """The same, once those that have none were given one."""
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
    """A bounded number of subjects (nodes, ranks), each with the same fields; NaN is unknown.

    Args:
        fields: names of the fields.
        limit: most subjects held; further ones are not taken.
        kind: how subjects are looked up.
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
        """Take one reading of `subject` at `time_s` (monotonic on its node), shape (fields,)."""
        self.add_all([subject], np.array([time_s]), values[None, :])

    def add_all(self, subjects: Sequence[Any] | Places, times: Values, values: Table) -> None:
        """Take one reading of each subject, `values` of shape (subjects, fields)."""
        self.add_at(self.numbered(subjects), times, values)

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """Number of each subject (subjects,), -1 where there is no room for it."""
        numbers = self._subjects.numbered(subjects)
        self._make_room()
        return numbers

    def add_at(self, numbers: Places, times: Values, values: Table) -> None:
        """Take one reading of each subject by its number; -1 is left out."""
        accepted = numbers >= 0
        numbers, times, values = numbers[accepted], times[accepted], values[accepted]
        count = self._count[numbers]
        self._write(numbers, count % NEWEST, times, values)
        sampled = count % EVERY == 0
        slots = NEWEST + count[sampled] // EVERY % EARLIER
        self._write(numbers[sampled], slots, times[sampled], values[sampled])
        self._count[numbers] = count + 1

    def skip(self, numbers: Places, counts: Places) -> None:
        """Count readings of subjects, each once by its number, of which nothing would be left."""
        accepted = numbers >= 0
        self._count[numbers[accepted]] += counts[accepted]

    def over(self, subjects: list[Any], seconds: float) -> tuple[Table, Table]:
        """Means (subjects, fields) over the newest `seconds` of each, and over what came before."""
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
    """`array` with at least `count` rows, a power of two, so that few additions copy it."""
    if count <= len(array):
        return array
    more = max(8, 1 << (count - 1).bit_length()) - len(array)
    return np.concatenate([array, np.full((more, *array.shape[1:]), empty, dtype=array.dtype)])


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
    """Turns counters into growth per second; NaN on the first reading and where one went back.

    Args:
        fields: counters of each subject.
        limit: most subjects held; further ones stay unknown.
        kind: how subjects are looked up.
    """

    def __init__(self, fields: int, limit: int, kind: type[Subjects] = Subjects) -> None:
        self._subjects = kind(limit)
        self._times = np.full(0, np.nan)
        self._counters = np.full((0, fields), np.nan)

    def rate(self, subject: object, time_s: float, counters: Values) -> Values:
        """Growth per second since the previous reading of `subject`."""
        rates: Values = self.of_all([subject], np.array([time_s]), counters[None, :])[0]
        return rates

    def of_all(self, subjects: Sequence[Any] | Places, times: Values, counters: Table) -> Table:
        """The same for many subjects, `counters` of shape (subjects, fields)."""
        return self.of_at(self.numbered(subjects), times, counters)

    def numbered(self, subjects: Sequence[Any] | Places) -> Places:
        """Number of each subject (subjects,), -1 where there is no room for it."""
        numbers = self._subjects.numbered(subjects)
        self._times = _with_room(self._times, len(self._subjects), np.nan)
        self._counters = _with_room(self._counters, len(self._subjects), np.nan)
        return numbers

    def of_at(self, numbers: Places, times: Values, counters: Table) -> Table:
        """The same for subjects by their numbers, each once; unknown for -1."""
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
