"""Format 1: self-describing tables with packed rows.

    header           the key block; a reader ignores everything after it
    payload          one zstd frame, compressed with `format1.dictionary`:
        size         u32       bytes of the directory: the next three
        tables       u16       number of tables
        per table    u16 kind, u32 rows, u16 bytes of its description
        descriptions           one after the other, as `layouts` writes them
        blocks                 one after the other

A block holds the first row unchanged, then every row's difference from the first, byte by byte,
transposed: byte 0 of all rows, byte 1 of all rows, ... Bytes that are equal in all rows become
adjacent zeros. Three rows with one u16 field:

    300, 301, 302  =  2c 01, 2d 01, 2e 01  ->  2c 01 | 00 01 02, 00 00 00

The dictionary with 8 KB was trained on segments with many shapes: with it, descriptions add 1 % to
a segment with one step of 8 ranks with 3 collectives each. The first row's difference from itself
costs 1 % and makes decoding a tenth faster. `tests/bench/codec.py` measures size and speed. The
dictionary is a part of the format and never changes; `tests/data/formats/dictionary.py` documents
how it was created.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from stepwatch.signals import layouts
from stepwatch.signals.arrays import Rows
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.layouts import Converter, LayoutError
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind

from . import frame
from .compression import Codec
from .packed import PackedTables, Place, Places
from .segment import Segment, SegmentKey, SentSegment

Head = tuple[SegmentKey, ClockPair]
"""The key and clock pair, in which alike segments differ."""
RowsOfAll = np.ndarray[tuple[int, int], np.dtype[np.void]]
"""Rows (segments, rows of each) of one kind."""
_AnyRows = TypeVar("_AnyRows", Rows, RowsOfAll)
_ByteMatrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
_BYTE = np.dtype(np.uint8)
_NUMBER = 1
_LEVEL = 6
_COUNT = struct.Struct("<H")
_SIZE = struct.Struct("<I")
_ENTRY = struct.Struct("<HIH")
MAX_DIRECTORY_BYTES = 1 << 16
_MAX_KEPT_BYTES = 1 << 13
_MOST_COMPARED = 4
_codec = Codec(_LEVEL, dictionary=True)
_quick_codec = Codec(3, dictionary=True)
"""For senders with thousands of nodes: a third of the time, and 3 % more bytes."""


class _Layout(NamedTuple):
    """A table's row layout: `kind` is None if unknown, `convert` if no row needs it."""

    dtype: np.dtype[np.void]
    kind: Kind | None
    convert: Converter | None


class _Table(NamedTuple):
    """One entry in a directory; `size` is its block's bytes."""

    number: int
    rows: int
    size: int
    layout: _Layout


class _Directory(NamedTuple):
    """The tables' positions: known kinds, other kinds by number, begin and end of the blocks."""

    tables: Places
    unknown: Mapping[int, Place]
    begin: int
    end: int


def encode(segment: Segment) -> bytes:
    """Pack a segment.

    Raises:
        SegmentError: it has more rows or bytes than a reader accepts, rows with a wrong dtype, or
            an unknown kind's rows that cannot be described.
    """
    if segment.row_count > frame.MAX_ROWS:
        raise SegmentError(f"{segment.row_count} rows are too many for one segment; split it")
    tables = [*_known_tables(segment.tables), *_unknown_tables(segment)]
    head = _head([(number, len(rows), text) for number, text, rows in tables])
    raw = b"".join((head, *(_pack(rows) for _, _, rows in tables)))
    if len(raw) > frame.MAX_RAW_BYTES:
        raise SegmentError(f"{len(raw)} bytes are too many for one segment; split it")
    header = frame.pack_key(segment.key, segment.clock)
    return frame.close_frame(_NUMBER, header, _codec.deflate(raw), len(raw))


def encode_alike(heads: Sequence[Head], tables: Mapping[Kind, RowsOfAll]) -> list[bytes]:
    """Pack the segments for `heads`, which have equal row counts of each kind, all at once.

    `tables` maps a kind to rows (segments, rows of each). It costs a fraction of as many calls to
    `encode`, for about as many bytes.

    Raises:
        SegmentError: one has more rows or bytes than a reader accepts, or rows with a wrong dtype.
    """
    described = [(kind, text, rows) for kind, text, rows in _known_tables(tables) if rows.shape[1]]
    if sum(rows.shape[1] for _, _, rows in described) > frame.MAX_ROWS:
        raise SegmentError("too many rows for one segment; split it")
    head = np.frombuffer(
        _head([(kind, rows.shape[1], text) for kind, text, rows in described]), _BYTE
    )
    repeated = np.broadcast_to(head, (len(heads), len(head)))
    raw = np.concatenate([repeated, *(_pack_alike(rows) for _, _, rows in described)], axis=1)
    if raw.shape[1] > frame.MAX_RAW_BYTES:
        raise SegmentError(f"{raw.shape[1]} bytes are too many for one segment; split it")
    segments = []
    for (key, clock), content in zip(heads, raw, strict=True):
        payload = _quick_codec.deflate(content.tobytes())
        segments.append(
            frame.close_frame(_NUMBER, frame.pack_key(key, clock), payload, len(content))
        )
    return segments


def decode(header: bytes, payload: bytes, raw_size: int) -> Segment:
    """Unpack a segment's parts.

    Raises:
        SegmentError: its content does not match its directory.
    """
    key, clock, _ = frame.unpack_key(header)
    raw, directory = _inflated(payload, raw_size)
    tables = PackedTables(raw, directory.tables)
    if not directory.unknown:
        return Segment(key, clock, tables)
    matrix = np.frombuffer(raw, _BYTE).reshape(1, -1)
    unknown = {number: place.unpacked(matrix) for number, place in directory.unknown.items()}
    return Segment(key, clock, tables, unknown)


def read_sent(header: bytes, payload: bytes, raw_size: int) -> SentSegment:
    """Unpack a segment's parts, with its rows as they were sent.

    Raises:
        SegmentError: its content does not match its directory.
    """
    key, clock, _ = frame.unpack_key(header)
    raw, directory = _inflated(payload, raw_size)
    matrix = np.frombuffer(raw, _BYTE).reshape(1, -1)
    places = sorted([*directory.tables.by_kind.items(), *directory.unknown.items()], key=_by_place)
    tables = [(int(kind), place._replace(convert=None).unpacked(matrix)) for kind, place in places]
    return SentSegment(key, clock, tables)


def write_sent(sent: SentSegment) -> bytes:
    """Pack rows as they were sent.

    Raises:
        SegmentError: rows that cannot be described.
    """
    described = [(number, _described(number, rows), rows) for number, rows in sent.tables]
    head = _head([(number, len(rows), text) for number, text, rows in described])
    raw = b"".join((head, *(_pack(rows) for _, _, rows in described)))
    header = frame.pack_key(sent.key, sent.clock)
    return frame.close_frame(_NUMBER, header, _codec.deflate(raw), len(raw))


def known_rows(number: int, rows: Rows) -> tuple[Kind | None, Rows]:
    """Return rows in this version's layout, with their kind; unchanged, with None, if unknown."""
    _, kind, convert = _layout(number, _described(number, rows))
    return kind, rows if convert is None else convert(rows)


def _by_place(table: tuple[int, Place]) -> int:
    return table[1].begin


def _inflated(payload: bytes, raw_size: int) -> tuple[bytes, _Directory]:
    raw = _codec.inflate(payload, raw_size)
    directory = _newest.find(raw)
    if directory.end != len(raw):
        begin = directory.begin
        raise SegmentError(
            f"tables of {directory.end - begin} bytes in a payload of {len(raw) - begin}"
        )
    return raw, directory


def _described(number: int, rows: Rows) -> bytes:
    try:
        return layouts.describe(rows.dtype).encode()
    except LayoutError as error:
        raise SegmentError(f"rows of kind {number} cannot be described: {error}") from error


def _head(tables: list[tuple[int, int, bytes]]) -> bytes:
    """Return the directory for tables (kind, rows, description), with its size before it."""
    directory = b"".join(
        (
            _COUNT.pack(len(tables)),
            *(_ENTRY.pack(number, rows, len(text)) for number, rows, text in tables),
            *(text for _, _, text in tables),
        )
    )
    if len(directory) > MAX_DIRECTORY_BYTES:
        raise SegmentError(f"{len(tables)} tables are too many for one segment; split it")
    return _SIZE.pack(len(directory)) + directory


def _known_tables(tables: Mapping[Kind, _AnyRows]) -> Iterable[tuple[int, bytes, _AnyRows]]:
    for kind, rows in sorted(tables.items()):
        dtype = DTYPES[kind]
        if rows.dtype is not dtype and rows.dtype != dtype:
            raise SegmentError(f"rows of {kind.name} have the wrong dtype")
        if len(rows):
            yield kind, _DESCRIPTIONS[kind], rows


def _unknown_tables(segment: Segment) -> Iterable[tuple[int, bytes, Rows]]:
    for number, rows in sorted(segment.unknown.items()):
        if number in _DESCRIPTIONS or not 0 < number < 1 << 16:
            raise SegmentError(f"kind {number} is not an unknown kind")
        text = _described(number, rows)
        if len(rows):
            yield number, text, rows


def _pack(rows: Rows) -> bytes:
    """Pack rows into a block; the module's docstring has an example with three rows."""
    table: _ByteMatrix = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    block: bytes = table[0].tobytes() + (table - table[0]).T.tobytes()
    return block


def _pack_alike(rows: RowsOfAll) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Pack rows (segments, rows of each) into blocks (segments, bytes of each)."""
    count, row_count = rows.shape
    table = np.ascontiguousarray(rows).view(np.uint8).reshape(count, row_count, -1)
    differences = (table - table[:, :1]).transpose(0, 2, 1).reshape(count, -1)
    return np.concatenate([table[:, 0], differences], axis=1)


class _NewestDirectories:
    """Finds a payload's directory; the payload starts with the directory's size.

    A job's nodes mostly send equal directories, so the newest ones are compared first. This takes a
    fiftieth of a cache lookup, whose key would be cut out and hashed for each segment.
    """

    def __init__(self) -> None:
        self._starts: tuple[tuple[bytes, _Directory], ...] = ()
        """Starts of payloads, directory included, newest first; replaced as one."""

    def find(self, raw: bytes) -> _Directory:
        """Return a payload's directory.

        Raises:
            SegmentError: it is truncated, or no directory.
        """
        for start, directory in self._starts:
            if raw.startswith(start):
                return directory
        end = _SIZE.size + int.from_bytes(raw[: _SIZE.size], "little")
        if not _SIZE.size <= end <= min(len(raw), MAX_DIRECTORY_BYTES):
            raise SegmentError(f"its directory ends at {end} of {len(raw)} bytes")
        directory = _directory(raw[_SIZE.size : end])
        if end <= _MAX_KEPT_BYTES:
            self._starts = ((raw[:end], directory), *self._starts[: _MOST_COMPARED - 1])
        return directory


_newest = _NewestDirectories()


def _directory(raw: bytes) -> _Directory:
    """Return the positions of a directory's tables.

    A node's directories repeat, so they are cached, except large ones: 64 KB hold 5,000 tables, and
    128 hostile directories would fill 124 MB for ever.
    """
    return _kept_directory(raw) if len(raw) <= _MAX_KEPT_BYTES else _read_directory(raw)


def _read_directory(raw: bytes) -> _Directory:
    tables = tuple(_tables(raw))
    rows = sum(table.rows for table in tables)
    if rows > frame.MAX_ROWS:
        raise SegmentError(f"it has {rows} rows; a segment has at most {frame.MAX_ROWS}")
    if len({table.number for table in tables}) < len(tables):
        raise SegmentError("it repeats a table")
    known_places: dict[Kind, Place] = {}
    unknown_places: dict[int, Place] = {}
    position = begin = _SIZE.size + len(raw)
    for number, count, size, (dtype, kind, convert) in tables:
        place = Place(position, count, dtype, convert)
        if kind is None:
            unknown_places[number] = place
        else:
            known_places[kind] = place
        position += size
    return _Directory(Places.of_tables(known_places), unknown_places, begin, position)


def _tables(raw: bytes) -> Iterator[_Table]:
    count = int.from_bytes(raw[: _COUNT.size], "little")
    position = _COUNT.size + count * _ENTRY.size
    if len(raw) < max(position, _COUNT.size):
        raise SegmentError(f"it promises {count} tables and ends before their list does")
    for number, rows, text_size in _ENTRY.iter_unpack(raw[_COUNT.size : position]):
        if number == 0 or rows == 0:
            raise SegmentError(f"its table of kind {number} has {rows} rows")
        layout = _layout(number, raw[position : position + text_size])
        yield _Table(number, rows, (rows + 1) * layout.dtype.itemsize, layout)
        position += text_size
    if position != len(raw):
        raise SegmentError("its tables have descriptions of another size than promised")


_kept_directory = lru_cache(maxsize=128)(_read_directory)


@lru_cache(maxsize=256)
def _layout(number: int, text: bytes) -> _Layout:
    try:
        dtype = layouts.parse(text)
    except LayoutError as error:
        raise SegmentError(f"its table of kind {number} is not a table: {error}") from error
    if number not in _DESCRIPTIONS:
        return _Layout(dtype, None, None)
    kind = Kind(number)
    if dtype == DTYPES[kind]:
        return _Layout(DTYPES[kind], kind, None)
    return _Layout(dtype, kind, Converter(dtype, DTYPES[kind], UNKNOWN[kind]))


_DESCRIPTIONS: dict[int, bytes] = {
    kind: layouts.describe(dtype).encode() for kind, dtype in DTYPES.items()
}
