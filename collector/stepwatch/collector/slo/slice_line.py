"""All slices for one SLI of a job, in time order: any window is a difference of two sums."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.ladder import AT_ONCE, LADDER, Rung, joined
from stepwatch.collector.store.slices import SLICE, SLICE_SECONDS, Slice, slices_of
from stepwatch.signals.arrays import Integers, Rows, Vector

_ROW = np.dtype([*SLICE.descr, ("cumulative_observed", "<i8"), ("cumulative_expected", "<i8")])
"""The `Slice` columns, and running sums for its two counts."""
_MICROSECOND = Decimal("0.000001")


class Window(NamedTuple):
    """Sums over a window: device-seconds, and the received share of records, None without any.

    `good` and `total` are exact to the microsecond.
    """

    good: Decimal
    total: Decimal
    coverage: Decimal | None


class SliceLine:
    """Slices in start order, in one array with 96 bytes each; iteration yields `Slice` objects."""

    def __init__(self, slices: Iterable[Slice] = ()) -> None:
        self._rows = np.zeros(0, dtype=_ROW)
        self._starts = np.zeros(0, dtype=np.int64)
        self._used = 0
        self.put(list(slices))

    @classmethod
    def of_rows(cls, rows: Rows) -> SliceLine:
        """Create the line from all slices in time order, an array with dtype `SLICE`."""
        line = cls()
        line._make_room(len(rows))
        line._used = len(rows)
        # All fields have eight bytes, and the first ones are those of `SLICE`: as a table of
        # numbers they are copied together, five times as fast as field by field.
        fields = len(Slice._fields)
        table = line._rows.view(np.int64).reshape(len(line._rows), _ROW.itemsize // 8)
        table[: len(rows), :fields] = rows.view(np.int64).reshape(len(rows), fields)
        line._count_on(0)
        return line

    def __len__(self) -> int:
        return self._used

    def __iter__(self) -> Iterator[Slice]:
        return iter(self.since(-math.inf))

    @property
    def last(self) -> Slice | None:
        """Newest slice; None without any."""
        return self._slices(self._used - 1, self._used)[0] if self._used else None

    @property
    def first_s(self) -> float:
        """Oldest slice's start, Unix seconds; infinite without any."""
        return float(self._rows["start_s"][0]) if self._used else math.inf

    @property
    def expected(self) -> int:
        """Number of expected step records, over all slices."""
        return int(self._rows["cumulative_expected"][self._used - 1]) if self._used else 0

    @property
    def sums(self) -> Window:
        """Good and total device-seconds, and the coverage, over all slices."""
        return self._between(0, self._used).window()

    @property
    def nbytes(self) -> int:
        """Array size in bytes."""
        return int(self._rows.nbytes + self._starts.nbytes)

    def since(self, start_s: float) -> list[Slice]:
        """Return slices that start at `start_s` or later."""
        return self._slices(self._index(start_s), self._used)

    def rows_since(self, start_s: float) -> Rows:
        """Return slices that start at `start_s` or later, as a read-only `SLICE` array."""
        return self._rows[self._index(start_s) : self._used]

    def rows_between(
        self, first_s: float, until_s: float, without: Sequence[tuple[float, float]] = ()
    ) -> Rows:
        """Return slices that start from `first_s` on and before `until_s`.

        Slices in the `without` spans are left out. The array has dtype `SLICE` and is read-only.
        """
        first, last = self._index(first_s), self._index(until_s)
        spans = [(self._index(begins), self._index(ends)) for begins, ends in without]
        cut = [(begin, until) for begin, until in spans if begin < last and until > first]
        if not cut:
            return self._rows[first:last]
        retained = np.ones(last - first, dtype=np.bool_)
        for begin, until in cut:
            retained[max(0, begin - first) : max(0, until - first)] = False
        return self._rows[first:last][retained]

    def slice_before(self, start_s: float) -> Slice | None:
        """Return the last slice that starts before `start_s`; None without one."""
        index = self._index(start_s)
        return self._slices(index - 1, index)[0] if index else None

    def places_of(self, moments: Vector) -> tuple[Integers, Integers]:
        """Return the start and length of the slice that contains each of `moments`.

        Unix seconds and seconds; a missing slice has the next one's length. Slices 0 to 300,
        600 to 610 and 620 to 630: for 7, 605, 615 and 640 the starts are 0, 600, 610 and 640.
        """
        starts, seconds = self._starts[: self._used], self._rows["seconds"][: self._used]
        following = starts.searchsorted(moments, side="right")
        inside = following > 0
        preceding = following[inside] - 1
        places = np.zeros(len(moments), dtype=np.int64)
        length = np.full(len(moments), SLICE_SECONDS)
        places[inside], length[inside] = starts[preceding], seconds[preceding]
        inside &= moments - places < length
        if not inside.all():  # a new slice
            outside = np.flatnonzero(~inside)
            nexts = following[outside]
            has_next = nexts < self._used
            length[outside] = SLICE_SECONDS
            length[outside[has_next]] = seconds[nexts[has_next]]
            places[outside] = (moments[outside] // length[outside]).astype(np.int64)
            places[outside] *= length[outside]
        return places, length

    def starts(self, moments: Vector) -> Integers:
        """Return the start of the slice that contains each of `moments`, Unix seconds."""
        return self.places_of(moments)[0]

    def put(self, slices: Sequence[Slice]) -> None:
        """Insert slices; each replaces an existing slice with the same start."""
        if not slices:
            return
        first = min(part.start_s for part in slices)
        index = self._index(first)
        tail = {part.start_s: part for part in (*self.since(first), *slices)}
        ordered = [tail[start] for start in sorted(tail)]
        self._make_room(index + len(ordered))
        rows = self._rows[index : index + len(ordered)]
        for name in Slice._fields:
            rows[name] = [getattr(part, name) for part in ordered]
        self._used = index + len(ordered)
        self._count_on(index)

    def window(
        self, now_s: float, seconds: float, without: Sequence[tuple[float, float]] = ()
    ) -> Window:
        """Return sums over slices that began by `now_s` and ended within the last `seconds`.

        The slice that contains the window's start counts whole, however coarse it is. Slices that
        begin in `without` spans (Unix seconds, rising and disjoint) are left out.
        """
        first, last = self._range(now_s, seconds)
        sums = self._between(first, last)
        for begins, ends in without:
            sums = sums.less(
                self._between(max(first, self._index(begins)), min(last, self._index(ends)))
            )
        return sums.window()

    def _range(self, now_s: float, seconds: float) -> tuple[int, int]:
        """Return a window's first and end slice position."""
        last = self._index(math.nextafter(now_s, math.inf))
        begins = now_s - seconds
        first = self._index(math.nextafter(begins, math.inf))
        if first > 0 and self._ends(first - 1) > begins:
            first -= 1
        return first, last

    def _between(self, first: int, last: int) -> _Sums:
        """Return the sums over slices at positions `first` to `last - 1`."""
        if last <= first:
            return _Sums(Decimal(0), Decimal(0), 0, 0)
        end = self._rows[last - 1].item()
        start = self._rows[first - 1].item() if first > 0 else _NOTHING
        return _Sums(
            _exact(end[_GOOD]) - _exact(start[_GOOD]),
            _exact(end[_TOTAL]) - _exact(start[_TOTAL]),
            end[_OBSERVED] - start[_OBSERVED],
            end[_EXPECTED] - start[_EXPECTED],
        )

    def coarser(self, before_s: float, ladder: Sequence[Rung] = LADDER) -> list[Slice]:
        """Return coarse slices that may replace fine, old ones that end by `before_s`.

        A few at a time: call `join` once they are stored.
        """
        if not self._used or math.isinf(before_s):
            return []
        due = [(*self._due(rung, before_s), rung) for rung in ladder]
        first, last, rung = max(due, key=lambda entry: entry[1] - entry[0])
        if first >= last:
            return []
        part = self._rows[first:last][: AT_ONCE * rung.seconds // SLICE_SECONDS]
        rows = joined(part, rung.seconds)
        if len(part) < last - first:
            rows = rows[:-1]  # its slices are incomplete
        return slices_of(rows[:AT_ONCE])

    def _due(self, rung: Rung, before_s: float) -> tuple[int, int]:
        """Return the first and end position for slices to be joined."""
        oldest = min(before_s, int(self._rows["start_s"][self._used - 1]) - rung.after_s)
        # Slices are never coarser than earlier ones: with 3600, 300, 300, 10 s the last is finer
        # than 300.
        seconds = self._rows["seconds"]
        places = range(self._used)
        first = bisect_left(places, 1 - rung.seconds, key=lambda place: -int(seconds[place]))
        return first, self._index(oldest // rung.seconds * rung.seconds)

    def join(self, coarse: Sequence[Slice]) -> None:
        """Replace fine slices by the coarse ones that `coarser` returned."""
        if not coarse:
            return
        first = self._index(coarse[0].start_s)
        last = self._index(coarse[-1].start_s + coarse[-1].seconds)
        behind = self._rows[last : self._used].copy()
        self._used = first
        self.put(coarse)
        self._make_room(self._used + len(behind))
        self._rows[self._used : self._used + len(behind)] = behind
        self._starts[self._used : self._used + len(behind)] = behind["start_s"]
        self._used += len(behind)

    def _ends(self, place: int) -> int:
        return int(self._rows["start_s"][place] + self._rows["seconds"][place])

    def _index(self, start_s: float) -> int:
        """Return the number of slices that start before `start_s`."""
        if math.isinf(start_s):
            return self._used if start_s > 0 else 0
        # A whole number: with a float, numpy would first copy all starts as floats.
        return int(self._starts[: self._used].searchsorted(math.ceil(start_s)))

    def _slices(self, first: int, last: int) -> list[Slice]:
        return slices_of(self._rows[first:last])

    def _count_on(self, place: int) -> None:
        """Update the running count sums, and the starts, from position `place` on.

        The starts have a contiguous array: a search in a row column copies the column.
        """
        self._starts[place : self._used] = self._rows["start_s"][place : self._used]
        for name in ("observed", "expected"):
            sums = self._rows[f"cumulative_{name}"][: self._used]
            base = int(sums[place - 1]) if place else 0
            sums[place:] = base + np.cumsum(self._rows[name][place : self._used])

    def _make_room(self, count: int) -> None:
        if count <= len(self._rows):
            return
        grown = np.zeros(max(64, 1 << (count - 1).bit_length()), dtype=_ROW)
        grown[: self._used] = self._rows[: self._used]
        starts = np.zeros(len(grown), dtype=np.int64)
        starts[: self._used] = self._starts[: self._used]
        self._rows, self._starts = grown, starts


class _Sums(NamedTuple):
    """Device-seconds, exact to the microsecond, and received and expected records."""

    good: Decimal
    total: Decimal
    observed: int
    expected: int

    def less(self, sums: _Sums) -> _Sums:
        return _Sums(
            self.good - sums.good,
            self.total - sums.total,
            self.observed - sums.observed,
            self.expected - sums.expected,
        )

    def window(self) -> Window:
        coverage = Decimal(self.observed) / Decimal(self.expected) if self.expected else None
        return Window(self.good, self.total, coverage)


_NOTHING = np.zeros(1, dtype=_ROW)[0].item()
_GOOD, _TOTAL, _OBSERVED, _EXPECTED = (
    list(_ROW.names or ()).index(f"cumulative_{name}")
    for name in ("good", "total", "observed", "expected")
)
"""Positions of the sums in a row tuple."""


def _exact(seconds: float) -> Decimal:
    """Return device-seconds to the microsecond: float sums carry noise below it."""
    return Decimal(seconds).quantize(_MICROSECOND)
