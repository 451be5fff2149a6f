"""The layout block of a ring: how each kind lies in a slot, by field name and type.

    magic            8 bytes   b"SWLAYOUT"
    version          u16       1; a later one may only add
    kinds            u16       how many are described
    offset, size     u32 each  where the descriptions lie in the file
    crc              u32       CRC-32 of the fields before it, with the descriptions

    per kind         u16 kind, u16 bytes of its description
    descriptions                one after the other, as `layouts` writes them

The block begins at a fixed place in the header. Every slot starts with its number (u64) and its
kind (u16) and ends with its CRC, whatever lies between. Agents from before this block find the
slots as they expect them, for as long as `IDENTITY_VERSION` is theirs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from stepwatch.signals import layouts, released
from stepwatch.signals.layouts import Converter, LayoutError
from stepwatch.signals.records import COMMON, DTYPES, RING_KINDS, UNKNOWN, Kind

from .layout import HEADER_SIZE, SLOT_DTYPES, SLOT_HEAD, SLOT_SIZE

LAYOUT_AT = 1280
_MAGIC = b"SWLAYOUT"
_BLOCK = struct.Struct("<8s H H I I")
_CRC_SIZE = 4
_ENTRY = struct.Struct("<H H")
_MAX_BYTES = 1 << 16
_CONTENT_SIZE = SLOT_SIZE - 4

Read = Callable[[int, int], bytes]
"""Reads bytes of the ring: (offset, size)."""


class LayoutCondition(StrEnum):
    """What is known of the layout of a ring's slots."""

    DESCRIBED = "described"
    """The ring describes its slots."""
    ABSENT = "absent"
    """It has no layout block: its writer is older than the block."""
    DAMAGED = "damaged"
    """Its layout block cannot be read; its slots are read as those of the oldest writers."""


class RingLayout(NamedTuple):
    """How to read the slots of a ring: a converter for each kind that the reader knows."""

    condition: LayoutCondition
    converters: Mapping[int, Converter]


def pack_layout() -> bytes:
    """Layout block of the rings that this version writes.

    Raises:
        ValueError: it does not fit into the header.
    """
    texts = {kind: _slot_text(SLOT_DTYPES[kind]) for kind in sorted(RING_KINDS)}
    entries = b"".join(_ENTRY.pack(kind, len(text)) for kind, text in texts.items())
    content = entries + b"".join(texts.values())
    offset = LAYOUT_AT + _BLOCK.size + _CRC_SIZE
    if offset + len(content) > HEADER_SIZE:
        raise ValueError(f"a layout of {len(content)} bytes does not fit into a ring's header")
    block = _BLOCK.pack(_MAGIC, 1, len(texts), offset, len(content))
    return block + zlib.crc32(content, zlib.crc32(block)).to_bytes(_CRC_SIZE, "little") + content


def read_layout(read: Read) -> RingLayout:
    """Read the layout block; without a whole one, the layout of rings from before it."""
    block = read(LAYOUT_AT, _BLOCK.size + _CRC_SIZE)
    if not any(block):
        return RingLayout(LayoutCondition.ABSENT, _oldest())
    try:
        texts = _described(block, read)
        converters = {kind: _converter(kind, text) for kind, text in texts.items()}
    except LayoutError:
        return RingLayout(LayoutCondition.DAMAGED, _oldest())
    readable = {kind: convert for kind, convert in converters.items() if convert is not None}
    return RingLayout(LayoutCondition.DESCRIBED, readable)


def _described(block: bytes, read: Read) -> dict[int, bytes]:
    magic, version, count, offset, size = _BLOCK.unpack_from(block)
    if magic != _MAGIC or version < 1 or size > _MAX_BYTES or size < count * _ENTRY.size:
        raise LayoutError("no layout block")
    content = read(offset, size)
    crc = int.from_bytes(block[_BLOCK.size :], "little")
    if zlib.crc32(content, zlib.crc32(block[: _BLOCK.size])) != crc:
        raise LayoutError("the layout block does not match its checksum")
    begin = count * _ENTRY.size
    texts: dict[int, bytes] = {}
    for kind, text_size in _ENTRY.iter_unpack(content[:begin]):
        if kind in texts:
            raise LayoutError(f"kind {kind} is described twice")
        texts[kind] = content[begin : begin + text_size]
        begin += text_size
    return texts


def _slot_text(slot: np.dtype[np.void]) -> bytes:
    """Description of a slot up to what fills it."""
    fields = [(name, slot[name].str) for name in slot.names or () if name != "rest"]
    return layouts.describe(np.dtype(fields)).encode()


def _slot_dtype(packed: np.dtype[np.void]) -> np.dtype[np.void]:
    """The same fields, as long as a slot."""
    if packed.itemsize > _CONTENT_SIZE:
        raise LayoutError(f"{packed.itemsize} bytes of a slot that holds {_CONTENT_SIZE}")
    names = list(packed.names or ())
    formats = [packed[name] for name in names]
    # u8 u2 u4 -> 0, 8, 10
    offsets = list(accumulate((field.itemsize for field in formats[:-1]), initial=0))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": SLOT_SIZE})


@lru_cache(maxsize=64)
def _converter(kind: int, text: bytes) -> Converter | None:
    """The same for all rings that describe a kind alike; None for a kind that is not known here.

    Raises:
        LayoutError: it is no layout of a slot.
    """
    slot = _slot_dtype(layouts.parse(text))
    return _converters({kind: slot}).get(kind)


@cache
def _oldest() -> dict[int, Converter]:
    """Slots as writers laid them out before rings described themselves."""
    common = {name for name, _ in COMMON}
    slots = {}
    for kind, text in released.FORMAT_2.items():
        record = layouts.parse(text.encode())
        body = [(name, record[name]) for name in record.names or () if name not in common]
        fields = np.dtype([*SLOT_HEAD, ("time_ns", "<u8"), *body])
        if kind in RING_KINDS:
            slots[kind] = _slot_dtype(fields)
    return _converters(slots)


def _converters(slots: Mapping[int, np.dtype[np.void]]) -> dict[int, Converter]:
    return {
        kind: Converter(slot, DTYPES[Kind(kind)], UNKNOWN[Kind(kind)])
        for kind, slot in slots.items()
        if kind in RING_KINDS
    }
