"""Lossless conversion of rows from many segments into columns that compress well.

Each column is read as unsigned numbers with the column's width and encoded as differences in one of
five ways, the one with the smallest result. The result is compressed by byte plane: byte 0 of all
rows, then byte 1 of all rows, and so on.

    RAW       the values themselves
    ROW       difference from the previous row
    LANE      difference from the previous row in the same lane
    PACE      second difference within the lane
    SINCE     LANE over the value minus `time_ns` in the same row

A lane holds what one source reported: rows from one sender with equal `LANE_FIELDS`. Example: three
rows with `seq` 7, 40, 8 from ranks 0, 1, 0. The lane order is 7, 8, 40, and LANE is 7, 1, 40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Column, Integers, Mask, Rows
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.wire.compression import Codec

LANE_FIELDS = ("rank", "group", "op", "device", "event", "source", "interface", "sender")
"""Fields that identify a record's subject: integers, or an interface name."""
RAW, ROW, LANE, PACE, SINCE = range(5)
TIME = "time_ns"
_SAMPLE = 4096
"""Number of rows in the sample that compares the encodings."""
_SPLIT_FROM = 512
"""Minimum row count for one frame per byte plane.

With fewer rows the frames cost more than they save.
"""
_LEVEL = 6
_codec = Codec(_LEVEL, dictionary=False)

Numbers = np.ndarray[tuple[int], np.dtype[np.unsignedinteger[Any]]]
Described = list[Any]
"""A column's [field, way, byte count per compressed part]; a part with 0 bytes is all zeros."""


class Lanes(NamedTuple):
    """Rows sorted by lane, in their original order within each lane.

    `order` is the sort order, `follows` marks rows with a predecessor in their lane, and `starts`
    holds the positions of each lane's first row.
    """

    order: Integers
    follows: Mask
    starts: Integers


def pack(rows: Rows, sender: Integers) -> tuple[list[Described], list[bytes]]:
    """Return the column descriptions and compressed parts for `rows`.

    `sender` has one number per row.
    """
    described, parts = [], []
    lanes = _lanes(rows, sender)
    for name in _in_order(rows.dtype):
        way, streams = _packed_column(rows, name, lanes)
        described.append([name, way, [len(stream) for stream in streams]])
        parts += streams
    return described, parts


def unpack(
    dtype: np.dtype[np.void], sender: Integers, described: list[Described], data: Iterator[bytes]
) -> Rows:
    """Return the rows that were passed to `pack`; `data` yields the byte counts in the description.

    Raises:
        SegmentError: a part is damaged, or the description does not match `dtype`.
    """
    rows = np.zeros(len(sender), dtype)
    if [entry[0] for entry in described] != _in_order(dtype):
        raise SegmentError("its columns are not those of its rows")
    lanes: Lanes | None = None
    for name, way, sizes in described:
        streams = [next(data) for _ in sizes]
        if name not in _lane_fields(dtype) and lanes is None:
            lanes = _lanes(rows, sender)
        values = _joined(streams, len(rows), dtype[name])
        if values.dtype.kind == "S":
            rows[name] = values
        else:
            rows[name] = _restored(values, way, rows, lanes).view(dtype[name])
    return rows


def _lane_fields(dtype: np.dtype[np.void]) -> list[str]:
    named = (name for name in LANE_FIELDS if name in (dtype.names or ()))
    return [name for name in named if dtype[name].kind in "iu" or name == "interface"]


def _in_order(dtype: np.dtype[np.void]) -> list[str]:
    """Return the fields in restore order: lane fields, the time, all others."""
    names = dtype.names or ()
    first = [*_lane_fields(dtype), *(name for name in (TIME,) if _has_time(dtype))]
    return [*first, *(name for name in names if name not in first)]


def _has_time(dtype: np.dtype[np.void]) -> bool:
    return TIME in (dtype.names or ()) and dtype[TIME] == np.dtype("<u8")


def _lanes(rows: Rows, sender: Integers) -> Lanes:
    keys = [sender, *(_key(rows[name]) for name in _lane_fields(rows.dtype))]
    order = np.lexsort(keys[::-1])
    follows = np.zeros(len(rows), bool)
    if len(rows) > 1:
        sorted_keys = [key[order] for key in keys]
        follows[1:] = np.logical_and.reduce([key[1:] == key[:-1] for key in sorted_keys])
    return Lanes(order, follows, np.flatnonzero(~follows))


def _key(column: Column) -> Column:
    """Return integers with the column's sort order: repeated sorts over strings are slow."""
    return np.unique(column, return_inverse=True)[1] if column.dtype.kind == "S" else column


def _packed_column(rows: Rows, name: str, lanes: Lanes) -> tuple[int, list[bytes]]:
    column = np.ascontiguousarray(rows[name])
    if column.dtype.kind == "S":
        planes = column.view(np.uint8).reshape(len(column), -1).T
        return RAW, [_codec.deflate(planes.tobytes()) if planes.any() else b""]
    values = _unsigned(column)
    if name in _lane_fields(rows.dtype):
        ways: Mapping[int, _Way] = {RAW: _raw, ROW: _by_row}
    elif name != TIME and values.itemsize == 8 and _has_time(rows.dtype):
        ways = _WAYS
    else:
        ways = {way: _WAYS[way] for way in (RAW, ROW, LANE, PACE)}
    time = _unsigned(rows[TIME]) if SINCE in ways else values
    way = _cheapest(ways, values, time, lanes)
    return way, _split(ways[way](values, time, lanes))


def _unsigned(column: Column) -> Numbers:
    return np.ascontiguousarray(column).view(f"<u{column.dtype.itemsize}")


def _raw(values: Numbers, time: Numbers, lanes: Lanes) -> Numbers:
    return values


def _by_row(values: Numbers, time: Numbers, lanes: Lanes) -> Numbers:
    return _folded(np.diff(values, prepend=values.dtype.type(0)))


def _by_lane(values: Numbers, time: Numbers, lanes: Lanes) -> Numbers:
    return _folded(_steps(values[lanes.order], lanes))


def _by_pace(values: Numbers, time: Numbers, lanes: Lanes) -> Numbers:
    return _folded(_steps(_steps(values[lanes.order], lanes), lanes))


def _since(values: Numbers, time: Numbers, lanes: Lanes) -> Numbers:
    return _folded(_steps((values - time)[lanes.order], lanes))


_Way = Callable[[Numbers, Numbers, Lanes], Numbers]
_WAYS: Mapping[int, _Way] = {
    RAW: _raw,
    ROW: _by_row,
    LANE: _by_lane,
    PACE: _by_pace,
    SINCE: _since,
}


def _cheapest(ways: Mapping[int, _Way], values: Numbers, time: Numbers, lanes: Lanes) -> int:
    """Return the cheapest encoding for a sample from the middle of the lane order."""
    if len(values) <= 1:
        return RAW
    first = max(0, (len(values) - _SAMPLE) // 2)
    sample = slice(first, first + _SAMPLE)
    order, follows = lanes.order[sample], lanes.follows[sample].copy()
    follows[0] = False
    sampled = Lanes(np.arange(len(order)), follows, np.flatnonzero(~follows))
    costs = {}
    for way, turn in ways.items():
        place: Any = sample if way in (RAW, ROW) else order
        costs[way] = _cost(turn(values[place], time[place], sampled))
    return min(costs, key=costs.__getitem__)


def _cost(values: Numbers) -> float:
    """Estimate the encoded size in bytes from the byte frequencies (entropy)."""
    width, count = values.itemsize, len(values)
    planes = values.view(np.uint8).reshape(count, width).astype(np.intp)
    counts = np.bincount((planes + 256 * np.arange(width)).ravel(), minlength=256 * width)
    frequencies = counts[counts > 0]
    return float((frequencies * (np.log2(count) - np.log2(frequencies))).sum() / 8)


def _steps(values: Numbers, lanes: Lanes) -> Numbers:
    """Return differences within each lane; a lane's first value stays.

    The subtraction wraps, and so does the sum that reverses it.
    """
    steps = values.copy()
    steps[1:] -= np.where(lanes.follows[1:], values[:-1], values.dtype.type(0))
    return steps


def _summed(steps: Numbers, lanes: Lanes) -> Numbers:
    """Return sums within each lane.

    [7, 1, 40], with 40 first in its lane, gives [7, 8, 40].
    """
    total = np.cumsum(steps, dtype=steps.dtype)
    offsets = total[lanes.starts] - steps[lanes.starts]
    lengths = np.diff(np.append(lanes.starts, len(steps)))
    return total - np.repeat(offsets, lengths)


def _folded(values: Numbers) -> Numbers:
    """Map small signed differences to small unsigned numbers: 0, -1, 1, -2 become 0, 1, 2, 3."""
    signed = values.view(f"<i{values.itemsize}")
    return ((signed << 1) ^ (signed >> (8 * values.itemsize - 1))).view(values.dtype)


def _unfolded(values: Numbers) -> Numbers:
    unit = values.dtype.type(1)
    return (values >> unit) ^ (~(values & unit) + unit)


def _restored(values: Numbers, way: int, rows: Rows, lanes: Lanes | None) -> Numbers:
    if way == RAW:
        return values
    if way == ROW:
        return np.cumsum(_unfolded(values), dtype=values.dtype)
    if lanes is None or way not in _WAYS:
        raise SegmentError("a column of it is packed in a way that nothing here reads")
    sums = _summed(_unfolded(values), lanes)
    if way == PACE:
        sums = _summed(sums, lanes)
    restored = np.empty_like(sums)
    restored[lanes.order] = sums
    return restored + _unsigned(rows[TIME]) if way == SINCE else restored


def _split(values: Numbers) -> list[bytes]:
    planes = values.view(np.uint8).reshape(len(values), -1).T
    if len(values) < _SPLIT_FROM:
        return [_codec.deflate(planes.tobytes()) if planes.any() else b""]
    return [_codec.deflate(plane.tobytes()) if plane.any() else b"" for plane in planes]


def _joined(streams: list[bytes], count: int, dtype: np.dtype[Any]) -> Any:
    """Return a column's unsigned numbers or strings from its compressed parts."""
    width = dtype.itemsize
    if len(streams) not in (1, width):
        raise SegmentError(f"{len(streams)} parts of a column of {width} bytes")
    size = count * width // len(streams)
    planes = b"".join(_codec.inflate(stream, size) if stream else bytes(size) for stream in streams)
    table = np.frombuffer(planes, np.uint8).reshape(width, count).T
    return (
        np.ascontiguousarray(table).reshape(-1).view(dtype if dtype.kind == "S" else f"<u{width}")
    )
