"""Unconverted ring slots: checked together, and turned into rows together.

Checking and converting the slots of eight rings one by one takes five times as long.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Rows, joined_rows
from stepwatch.signals.layouts import Converter

from .layout import SLOT_SIZE

_CRC_AT = SLOT_SIZE - 4
_FRAME = np.dtype(
    {
        "names": ["seq", "kind", "crc"],
        "formats": ["<u8", "<u2", "<u4"],
        "offsets": [0, 8, _CRC_AT],
        "itemsize": SLOT_SIZE,
    }
)
"""The start and the end of every slot."""


class RingSlots(NamedTuple):
    """One ring's whole slots of one kind, one after the other, and their converter."""

    rank: int
    convert: Converter
    raw: bytes

    def __len__(self) -> int:
        return len(self.raw) // SLOT_SIZE


def rows_of(ring_slots: Sequence[RingSlots]) -> Rows:
    """Return rows from slots of one kind, in order."""
    parts = []
    for _, alike in groupby(ring_slots, key=lambda slots: id(slots.convert)):
        group = list(alike)
        convert = group[0].convert
        raw = b"".join(slots.raw for slots in group)
        rows = convert(np.frombuffer(raw, dtype=convert.source))
        rows["rank"] = np.repeat([slots.rank for slots in group], [len(slots) for slots in group])
        parts.append(rows)
    return parts[0] if len(parts) == 1 else joined_rows(parts, parts[0].dtype)


def are_whole(chunk: bytes, first: int) -> bool:
    """Return whether a chunk holds records `first`, `first` + 1, ... and none is torn."""
    slots = np.frombuffer(chunk, _FRAME)
    if not np.array_equal(slots["seq"], np.arange(first, first + len(slots), dtype=np.uint64)):
        return False
    view = memoryview(chunk)
    sums = [
        zlib.crc32(view[offset : offset + _CRC_AT]) for offset in range(0, len(chunk), SLOT_SIZE)
    ]
    return bool(sums == slots["crc"].tolist())


def is_whole(slot: bytes) -> bool:
    """Return whether one slot is not torn."""
    return zlib.crc32(slot[:_CRC_AT]) == int.from_bytes(slot[_CRC_AT:], "little")


def by_kind(chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield a chunk's slots, kind by kind."""
    kinds = np.frombuffer(chunk, _FRAME)["kind"]
    slots = np.frombuffer(chunk, np.uint8).reshape(-1, SLOT_SIZE)
    for kind in dict.fromkeys(kinds.tolist()):
        yield kind, slots[kinds == kind].tobytes()
