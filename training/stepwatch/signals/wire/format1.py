"""Format 1: self-describing tables of packed rows.

    header           the key block, and nothing after it that a reader depends on
    payload          one zstd frame, compressed with `format1.dictionary`:
        size         u32       bytes of the directory: the next three
        tables       u16       how many follow
        per table    u16 kind, u32 rows, u16 bytes of its description
        descriptions           one after the other, as `layouts` writes them
        blocks                 one after the other

A block holds the first row as it is, then the difference of every row from the first, byte by byte,
transposed: byte 0 of all rows, byte 1 of all rows, ... What is the same in all rows becomes zeros
side by side. Three rows of one u16 field:

    300, 301, 302  =  2c 01, 2d 01, 2e 01  ->  2c 01 | 00 01 02, 00 00 00

The dictionary of 8 KB was trained on segments of many shapes: with it, descriptions add 1 % to a
segment of one step of 8 ranks with 3 collectives each. The difference of the first row from itself
costs 1 % and makes decoding a tenth faster. `tests/bench/codec.py` measures size and speed. The
dictionary is a part of the format and never changes; `tests/data/formats/dictionary.py` says how it
was made.
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
"""What tells one segment from another that is alike."""
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
"""For who writes for thousands of nodes: a third of the time, and 3 % more bytes."""


class _Layout(NamedTuple):
    """How rows come in: `kind` is None if unknown, `convert` if no row needs it."""

    dtype: np.dtype[np.void]
    kind: Kind | None
    convert: Converter | None


class _Table(NamedTuple):
    """One entry of a directory; `size` is the bytes of its block."""

    number: int
    rows: int
    size: int
    layout: _Layout


class _Directory(NamedTuple):
    """Where tables lie: those of known kinds, those of others by number; where blocks begin and
    end."""

    known: Places
    unknown: Mapping[int, Place]
    begin: int
    end: int


def encode(segment: Segment) -> bytes:
    """Pack a segment.

    Raises:
        SegmentError: it has more rows or bytes than a reader accepts, rows of a wrong dtype, or
            an unknown kind's rows that cannot be described.
    """
    if segment.row_count > frame.MAX_ROWS:
        raise SegmentError(f"{segment.row_count} rows are too many for one segment; split it")
    tables = [*_known(segment.tables), *_unknown(segment)]
    head = _head([(number, len(rows), text) for number, text, rows in tables])
    raw = b"".join((head, *(_pack(rows) for _, _, rows in tables)))
    if len(raw) > frame.MAX_RAW_BYTES:
        raise SegmentError(f"{len(raw)} bytes are too many for one segment; split it")
    header = frame.pack_key(segment.key, segment.clock)
    return frame.close_frame(_NUMBER, header, _codec.deflate(raw), len(raw))


def encode_alike(heads: Sequence[Head], tables: Mapping[Kind, RowsOfAll]) -> list[bytes]:
    """Pack the segments of `heads`, which have as many rows of each kind, all at once.

    `tables` maps a kind to rows (segments, rows of each). It costs a fraction of as many calls of
    `encode`, for about as many bytes.

    Raises:
        SegmentError: one has more rows or bytes than a reader accepts, or rows of a wrong dtype.
    """
    known = [(kind, text, rows) for kind, text, rows in _known(tables) if rows.shape[1]]
    if sum(rows.shape[1] for _, _, rows in known) > frame.MAX_ROWS:
        raise SegmentError("too many rows for one segment; split it")
    head = np.frombuffer(_head([(kind, rows.shape[1], text) for kind, text, rows in known]), _BYTE)
    repeated = np.broadcast_to(head, (len(heads), len(head)))
    raw = np.concatenate([repeated, *(_pack_alike(rows) for _, _, rows in known)], axis=1)
    if raw.shape[1] > frame.MAX_RAW_BYTES:
        raise SegmentError(f"{raw.shape[1]} bytes are too many for one segment; split it")
    made = []
    for (key, clock), own in zip(heads, raw, strict=True):
        payload = _quick_codec.deflate(own.tobytes())
        made.append(frame.close_frame(_NUMBER, frame.pack_key(key, clock), payload, len(own)))
    return made


def decode(header: bytes, payload: bytes, raw_size: int) -> Segment:
    """Unpack the parts of a segment.

    Raises:
        SegmentError: what it holds is not what it promises.
    """
    key, clock, _ = frame.unpack_key(header)
    raw, directory = _inflated(payload, raw_size)
    tables = PackedTables(raw, directory.known)
    if not directory.unknown:
        return Segment(key, clock, tables)
    whole = np.frombuffer(raw, _BYTE).reshape(1, -1)
    unknown = {number: place.unpacked(whole) for number, place in directory.unknown.items()}
    return Segment(key, clock, tables, unknown)


def read_sent(header: bytes, payload: bytes, raw_size: int) -> SentSegment:
    """Unpack the parts of a segment, its rows as they were sent.

    Raises:
        SegmentError: what it holds is not what it promises.
    """
    key, clock, _ = frame.unpack_key(header)
    raw, directory = _inflated(payload, raw_size)
    whole = np.frombuffer(raw, _BYTE).reshape(1, -1)
    places = sorted([*directory.known.of.items(), *directory.unknown.items()], key=_by_place)
    tables = [(int(kind), place._replace(convert=None).unpacked(whole)) for kind, place in places]
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
    """Rows as this version has them, with their kind; as they are, and None, of an unknown one."""
    _, kind, convert = _layout(number, _described(number, rows))
    return kind, rows if convert is None else convert(rows)


def _by_place(table: tuple[int, Place]) -> int:
    return table[1].at


def _inflated(payload: bytes, raw_size: int) -> tuple[bytes, _Directory]:
    raw = _codec.inflate(payload, raw_size)
    directory = _newest.of(raw)
    if directory.end != len(raw):
        at = directory.begin
        raise SegmentError(f"tables of {directory.end - at} bytes in a payload of {len(raw) - at}")
    return raw, directory


def _described(number: int, rows: Rows) -> bytes:
    try:
        return layouts.describe(rows.dtype).encode()
    except LayoutError as error:
        raise SegmentError(f"rows of kind {number} cannot be described: {error}") from error


def _head(tables: list[tuple[int, int, bytes]]) -> bytes:
    """The directory of tables (kind, rows, description), and its size before it."""
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


def _known(tables: Mapping[Kind, _AnyRows]) -> Iterable[tuple[int, bytes, _AnyRows]]:
    for kind, rows in sorted(tables.items()):
        dtype = DTYPES[kind]
        if rows.dtype is not dtype and rows.dtype != dtype:
            raise SegmentError(f"rows of {kind.name} have the wrong dtype")
        if len(rows):
            yield kind, _DESCRIPTIONS[kind], rows


def _unknown(segment: Segment) -> Iterable[tuple[int, bytes, Rows]]:
    for number, rows in sorted(segment.unknown.items()):
        if number in _DESCRIPTIONS or not 0 < number < 1 << 16:
            raise SegmentError(f"kind {number} is no unknown kind")
        text = _described(number, rows)
        if len(rows):
            yield number, text, rows


def _pack(rows: Rows) -> bytes:
    """Rows as a block; the module's docstring has an example of three rows."""
    table: _ByteMatrix = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)
    block: bytes = table[0].tobytes() + (table - table[0]).T.tobytes()
    return block


def _pack_alike(rows: RowsOfAll) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Rows (segments, rows of each) as blocks (segments, bytes of each)."""
    count, each = rows.shape
    table = np.ascontiguousarray(rows).view(np.uint8).reshape(count, each, -1)
    differences = (table - table[:, :1]).transpose(0, 2, 1).reshape(count, -1)
    return np.concatenate([table[:, 0], differences], axis=1)


class _NewestDirectories:
    """Where tables lie in a payload: at its start it says the size of its directory, and that.

    The nodes of a job mostly send the same, so those that were read last are compared first, which
    takes a fiftieth of a look into a cache: its key would be cut out and hashed for each segment.
    """

    def __init__(self) -> None:
        self._found: tuple[tuple[bytes, _Directory], ...] = ()
        """Starts of payloads, directory included, newest first; replaced as one."""

    def of(self, raw: bytes) -> _Directory:
        """The directory of a payload.

        Raises:
            SegmentError: it is cut short, or no directory.
        """
        for start, directory in self._found:
            if raw.startswith(start):
                return directory
        at = _SIZE.size + int.from_bytes(raw[: _SIZE.size], "little")
        if not _SIZE.size <= at <= min(len(raw), MAX_DIRECTORY_BYTES):
            raise SegmentError(f"its directory ends at {at} of {len(raw)} bytes")
        directory = _directory(raw[_SIZE.size : at])
        if at <= _MAX_KEPT_BYTES:
            self._found = ((raw[:at], directory), *self._found[: _MOST_COMPARED - 1])
        return directory


_newest = _NewestDirectories()


def _directory(raw: bytes) -> _Directory:
    """Where the tables of a directory lie.

    A node's directories repeat, so they are kept, but not large ones: 64 KB hold 5,000 tables, and
    those of 128 hostile directories would fill 124 MB for ever.
    """
    return _kept_directory(raw) if len(raw) <= _MAX_KEPT_BYTES else _read_directory(raw)


def _read_directory(raw: bytes) -> _Directory:
    tables = tuple(_tables(raw))
    rows = sum(table.rows for table in tables)
    if rows > frame.MAX_ROWS:
        raise SegmentError(f"it has {rows} rows; a segment has at most {frame.MAX_ROWS}")
    if len({table.number for table in tables}) < len(tables):
        raise SegmentError("it repeats a table")
    known: dict[Kind, Place] = {}
    unknown: dict[int, Place] = {}
    at = begin = _SIZE.size + len(raw)
    for number, count, size, (dtype, kind, convert) in tables:
        place = Place(at, count, dtype, convert)
        if kind is None:
            unknown[number] = place
        else:
            known[kind] = place
        at += size
    return _Directory(Places.of_tables(known), unknown, begin, at)


def _tables(raw: bytes) -> Iterator[_Table]:
    count = int.from_bytes(raw[: _COUNT.size], "little")
    at = _COUNT.size + count * _ENTRY.size
    if len(raw) < max(at, _COUNT.size):
        raise SegmentError(f"it promises {count} tables and ends before their list does")
    for number, rows, text_size in _ENTRY.iter_unpack(raw[_COUNT.size : at]):
        if number == 0 or rows == 0:
            raise SegmentError(f"its table of kind {number} has {rows} rows")
        layout = _layout(number, raw[at : at + text_size])
        yield _Table(number, rows, (rows + 1) * layout.dtype.itemsize, layout)
        at += text_size
    if at != len(raw):
        raise SegmentError("its tables have descriptions of another size than promised")


_kept_directory = lru_cache(maxsize=128)(_read_directory)


@lru_cache(maxsize=256)
def _layout(number: int, text: bytes) -> _Layout:
    try:
        dtype = layouts.parse(text)
    except LayoutError as error:
        raise SegmentError(f"its table of kind {number} is no table: {error}") from error
    if number not in _DESCRIPTIONS:
        return _Layout(dtype, None, None)
    kind = Kind(number)
    if dtype == DTYPES[kind]:
        return _Layout(DTYPES[kind], kind, None)
    return _Layout(dtype, kind, Converter(dtype, DTYPES[kind], UNKNOWN[kind]))


_DESCRIPTIONS: dict[int, bytes] = {
    kind: layouts.describe(dtype).encode() for kind, dtype in DTYPES.items()
}
