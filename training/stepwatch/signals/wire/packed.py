"""Tables as they lie in format 1, unpacked when they are read; those of many segments at once.

To unpack a table takes numpy 8 us, whether it has eight rows or a thousand, and a segment has eight
tables. Whoever folds a hundred segments together joins their bytes first, and unpacks once a kind.
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
    """Where the block of a table lies in the bytes of its segment, and what its rows are like.

    `convert` turns rows of `dtype` into those of this version; None where they are.
    """

    at: int
    rows: int
    dtype: np.dtype[np.void]
    convert: Converter | None

    def unpacked(self, raw: _ByteMatrix) -> Rows:
        """The rows of this table in segments (segments, bytes of each), one after the other.

        A block holds the first row, then the differences of all rows from it: byte k of row r lies
        at k * rows + r. Three rows of one u16 field in each of two segments:

            2c 01 | 00 01 02, 00 00 00      300, 301, 302
            0a 00 | 00 00 05, 00 00 00  ->   10,  10,  15
        """
        size = self.dtype.itemsize
        block = raw[:, self.at : self.at + (self.rows + 1) * size]
        first = block[:, None, :size]
        differences = block[:, size:].reshape(len(raw), size, self.rows).transpose(0, 2, 1)
        found = np.add(differences, first, order="C")
        rows: Rows = np.ndarray(len(raw) * self.rows, self.dtype, found)
        return rows if self.convert is None else self.convert(rows)


class Places(NamedTuple):
    """The tables of segments that are alike, with all their rows and the bytes of these."""

    of: Mapping[Kind, Place]
    rows: int
    nbytes: int

    @classmethod
    def of_tables(cls, of: Mapping[Kind, Place]) -> Places:
        """The places of those tables."""
        nbytes = sum(place.rows * DTYPES[kind].itemsize for kind, place in of.items())
        return cls(of, sum(place.rows for place in of.values()), nbytes)


class PackedTables(Mapping[Kind, Rows]):
    """Tables by kind, which lie in `raw` at `places`; one that was read once is kept."""

    __slots__ = ("_read", "nbytes", "places", "raw")

    def __init__(self, raw: bytes, places: Places) -> None:
        self.raw = raw
        self.places = places
        self.nbytes = max(len(raw), places.nbytes)
        """Bytes of the tables, packed or unpacked: fields may be left out, or be unknown."""
        self._read: dict[Kind, Rows] | None = None

    def __getitem__(self, kind: Kind) -> Rows:
        place = self.places.of[kind]
        if self._read is None:
            self._read = {}
        found = self._read.get(kind)
        if found is None:
            raw = np.frombuffer(self.raw, _BYTE).reshape(1, -1)
            found = self._read[kind] = place.unpacked(raw)
        return found

    def __contains__(self, kind: object) -> bool:
        return kind in self.places.of

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.places.of)

    def __len__(self) -> int:
        return len(self.places.of)

    def __repr__(self) -> str:
        return repr(dict(self))


class _Alike(NamedTuple):
    """Segments whose tables lie at the same places: their numbers, and what they hold."""

    numbers: Integers
    raw: _ByteMatrix
    places: Places


class JoinedTables:
    """The tables of several segments, joined kind by kind when somebody asks for them."""

    def __init__(self, tables: Sequence[Mapping[Kind, Rows]]) -> None:
        self._tables = tables
        members: dict[int, tuple[Places, list[int], list[bytes]]] = {}
        self._loose: list[int] = []
        for number, each in enumerate(tables):
            if isinstance(each, PackedTables):
                places = each.places
                found = members.get(id(places))
                if found is None:
                    found = members[id(places)] = (places, [], [])
                found[1].append(number)
                found[2].append(each.raw)
            else:
                self._loose.append(number)
        self._alike = [_alike(*each) for each in members.values()]

    def kinds(self, first: int, last: int) -> frozenset[Kind]:
        """Kinds that any of the segments `first` to `last - 1` has."""
        loose = (self._tables[number] for number in self._loose if first <= number < last)
        alike = (
            group.places.of
            for group in self._alike
            if np.searchsorted(group.numbers, first) < np.searchsorted(group.numbers, last)
        )
        return frozenset[Kind]().union(*loose, *alike)

    def rows(self, kind: Kind) -> tuple[Rows, Integers]:
        """Rows of a kind, one segment after the other, and how many each has (segments,)."""
        counts = np.zeros(len(self._tables), dtype=np.int64)
        parts: list[tuple[Integers, Rows]] = []
        for group in self._alike:
            if (place := group.places.of.get(kind)) is not None:
                counts[group.numbers] = place.rows
                parts.append((group.numbers, place.unpacked(group.raw)))
        loose = [(number, self._tables[number].get(kind)) for number in self._loose]
        known = [(number, rows) for number, rows in loose if rows is not None and len(rows)]
        if known:
            numbers = np.array([number for number, _ in known])
            counts[numbers] = [len(rows) for _, rows in known]
            parts.append((numbers, joined_rows([rows for _, rows in known], DTYPES[kind])))
        return _in_order(parts, counts, DTYPES[kind]), counts


def _alike(places: Places, numbers: list[int], raw: list[bytes]) -> _Alike:
    matrix = np.frombuffer(b"".join(raw), _BYTE).reshape(len(numbers), -1)
    return _Alike(np.array(numbers), matrix, places)


def _in_order(
    parts: list[tuple[Integers, Rows]], counts: Integers, dtype: np.dtype[np.void]
) -> Rows:
    """Rows of parts, each of some segments (numbers, rows), in the order of the segments.

    Segments 0 and 2 with [a, b] and [e], segment 1 with [c, d]; counts 2, 2, 1 ->
    a, b, e go to 0, 1, 4 and c, d to 2, 3.
    """
    if len(parts) == 1:  # its segments are in their order, and no other one has rows
        return parts[0][1]
    starts = np.cumsum(counts) - counts
    # As plain bytes: numpy copies structured rows field by field.
    found = np.empty(int(counts.sum()), np.dtype((np.void, dtype.itemsize)))
    for numbers, rows in parts:
        own = counts[numbers]
        moved = np.repeat(starts[numbers] - (np.cumsum(own) - own), own)
        found[np.arange(len(rows)) + moved] = rows.view(found.dtype)
    in_order: Rows = found.view(dtype)
    return in_order
