"""Format 1's packed tables, unpacked when they are read; many segments' tables at once.

Unpacking a table takes numpy 8 us, with eight rows or a thousand, and a segment has eight tables.
A reader that folds a hundred segments joins their bytes first, and unpacks once a kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Integers, Rows, joined_rows
from stepwatch.signals.layouts import Converter
from stepwatch.signals.records import DTYPES, Kind

_ByteMatrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
_BYTE = np.dtype(np.uint8)


class Place(NamedTuple):
    """The position of a table's block in its segment's bytes, and its row layout.

    `convert` turns rows with `dtype` into this version's; None if they have its layout.
    """

    begin: int
    rows: int
    dtype: np.dtype[np.void]
    convert: Converter | None

    def unpacked(self, raw: _ByteMatrix) -> Rows:
        """Return this table's rows in segments (segments, bytes of each), one after the other.

        A block holds the first row, then all rows' differences from it: byte k of row r is
        at k * rows + r. Three rows with one u16 field in each of two segments:

            2c 01 | 00 01 02, 00 00 00      300, 301, 302
            0a 00 | 00 00 05, 00 00 00  ->   10,  10,  15
        """
        size = self.dtype.itemsize
        block = raw[:, self.begin : self.begin + (self.rows + 1) * size]
        first = block[:, None, :size]
        differences = block[:, size:].reshape(len(raw), size, self.rows).transpose(0, 2, 1)
        content = np.add(differences, first, order="C")
        rows: Rows = np.ndarray(len(raw) * self.rows, self.dtype, content)
        return rows if self.convert is None else self.convert(rows)

    def small_values(self, raw: bytes, field: str) -> frozenset[int] | None:
        """Return a number field's distinct values in one segment's `raw`; None if one is above 255.

        Only the field's bytes are read: rows 300, 301 have the high bytes 1 and 1 + 0, so None.
        """
        fields = self.dtype.fields
        assert fields is not None
        dtype, offset = fields[field][:2]
        low, high = raw[self.begin + offset], raw[self.begin + offset + 1 :][: dtype.itemsize - 1]
        begin = self.begin + self.dtype.itemsize + offset * self.rows
        if any(high) or any(raw[begin + self.rows : begin + self.rows * dtype.itemsize]):
            return None
        return frozenset({(low + more) & 0xFF for more in raw[begin : begin + self.rows]})


class Places(NamedTuple):
    """The tables of alike segments, with their total rows and bytes."""

    by_kind: Mapping[Kind, Place]
    rows: int
    nbytes: int

    @classmethod
    def of_tables(cls, places: Mapping[Kind, Place]) -> Places:
        """Return the places for these tables."""
        nbytes = sum(place.rows * DTYPES[kind].itemsize for kind, place in places.items())
        return cls(places, sum(place.rows for place in places.values()), nbytes)


class PackedTables(Mapping[Kind, Rows]):
    """Tables by kind, packed in `raw` at `places`; a table is kept after its first read."""

    __slots__ = ("_read", "nbytes", "places", "raw")

    def __init__(self, raw: bytes, places: Places) -> None:
        self.raw = raw
        self.places = places
        self.nbytes = max(len(raw), places.nbytes)
        """The tables' bytes, packed or unpacked: fields may be left out, or be unknown."""
        self._read: dict[Kind, Rows] | None = None

    def __getitem__(self, kind: Kind) -> Rows:
        place = self.places.by_kind[kind]
        if self._read is None:
            self._read = {}
        rows = self._read.get(kind)
        if rows is None:
            raw = np.frombuffer(self.raw, _BYTE).reshape(1, -1)
            rows = self._read[kind] = place.unpacked(raw)
        return rows

    def small_values(self, kind: Kind, field: str) -> frozenset[int] | None:
        """Return a number field's distinct values, without unpacking the table.

        Empty without the table; None if one is above 255, or if the table has another layout.
        """
        place = self.places.by_kind.get(kind)
        if place is None:
            return frozenset()
        return None if place.convert is not None else place.small_values(self.raw, field)

    def __contains__(self, kind: object) -> bool:
        return kind in self.places.by_kind

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.places.by_kind)

    def __len__(self) -> int:
        return len(self.places.by_kind)

    def __repr__(self) -> str:
        return repr(dict(self))


class _Alike(NamedTuple):
    """Segments with tables at the same places: their numbers and bytes."""

    numbers: Integers
    raw: _ByteMatrix
    places: Places


class JoinedTables:
    """Several segments' tables, joined kind by kind on demand."""

    def __init__(self, tables: Sequence[Mapping[Kind, Rows]]) -> None:
        self._tables = tables
        self._loose: list[int] = []
        self._alike = []
        first = tables[0] if tables else None
        if isinstance(first, PackedTables) and _are_alike(tables, first.places):
            raw = [table.raw for table in tables]  # type: ignore[attr-defined]
            self._alike = [_alike(first.places, [*range(len(tables))], raw)]
            return
        members: dict[int, tuple[Places, list[int], list[bytes]]] = {}
        for number, table in enumerate(tables):
            if isinstance(table, PackedTables):
                places = table.places
                member = members.get(id(places))
                if member is None:
                    member = members[id(places)] = (places, [], [])
                member[1].append(number)
                member[2].append(table.raw)
            else:
                self._loose.append(number)
        self._alike = [_alike(*member) for member in members.values()]

    def kinds(self, first: int, last: int) -> frozenset[Kind]:
        """Return the kinds in any of the segments `first` to `last - 1`."""
        loose = (self._tables[number] for number in self._loose if first <= number < last)
        alike = (
            group.places.by_kind
            for group in self._alike
            if np.searchsorted(group.numbers, first) < np.searchsorted(group.numbers, last)
        )
        return frozenset[Kind]().union(*loose, *alike)

    def rows(self, kind: Kind) -> tuple[Rows, Integers]:
        """Return a kind's rows, one segment after the other, and row counts (segments,)."""
        counts = np.zeros(len(self._tables), dtype=np.int64)
        parts: list[tuple[Integers, Rows]] = []
        for group in self._alike:
            if (place := group.places.by_kind.get(kind)) is not None:
                counts[group.numbers] = place.rows
                parts.append((group.numbers, place.unpacked(group.raw)))
        loose = [(number, self._tables[number].get(kind)) for number in self._loose]
        filled = [(number, rows) for number, rows in loose if rows is not None and len(rows)]
        if filled:
            numbers = np.array([number for number, _ in filled])
            counts[numbers] = [len(rows) for _, rows in filled]
            parts.append((numbers, joined_rows([rows for _, rows in filled], DTYPES[kind])))
        return _in_order(parts, counts, DTYPES[kind]), counts


def _are_alike(tables: Sequence[Mapping[Kind, Rows]], places: Places) -> bool:
    """Return whether all tables are packed at the same places: nearly always, for a job's nodes."""
    return all(type(table) is PackedTables and table.places is places for table in tables)


def _alike(places: Places, numbers: list[int], raw: list[bytes]) -> _Alike:
    matrix = np.frombuffer(b"".join(raw), _BYTE).reshape(len(numbers), -1)
    return _Alike(np.array(numbers), matrix, places)


def _in_order(
    parts: list[tuple[Integers, Rows]], counts: Integers, dtype: np.dtype[np.void]
) -> Rows:
    """Return the rows of parts, each from some segments (numbers, rows), in segment order.

    Segments 0 and 2 with [a, b] and [e], segment 1 with [c, d]; counts 2, 2, 1 ->
    a, b, e go to 0, 1, 4 and c, d to 2, 3.
    """
    if len(parts) == 1:  # its segments are in order, and no other one has rows
        return parts[0][1]
    starts = np.cumsum(counts) - counts
    # As plain bytes: numpy copies structured rows field by field.
    content = np.empty(int(counts.sum()), np.dtype((np.void, dtype.itemsize)))
    for numbers, rows in parts:
        lengths = counts[numbers]
        moved = np.repeat(starts[numbers] - (np.cumsum(lengths) - lengths), lengths)
        content[np.arange(len(rows)) + moved] = rows.view(content.dtype)
    in_order: Rows = content.view(dtype)
    return in_order
