"""A ring's layout block: each kind's position in a slot, by field name and type.

    magic            8 bytes   b"SWLAYOUT"
    version          u16       1; a later one may only add
    kinds            u16       number of described kinds
    offset, size     u32 each  position of the descriptions in the file
    crc              u32       CRC-32 of the fields before it, with the descriptions

    per kind         u16 kind, u16 bytes of its description
    descriptions                one after the other, as `layouts` writes them

The block begins at a fixed place in the header. Every slot starts with its number (u64) and its
kind (u16) and ends with its CRC, whatever is between.
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

from stepwatch.signals import layouts
from stepwatch.signals.layouts import Converter, LayoutError
from stepwatch.signals.records import DTYPES, RING_KINDS, UNKNOWN, Kind

from .layout import HEADER_SIZE, SLOT_DTYPES, SLOT_SIZE

LAYOUT_AT = 1280
_MAGIC = b"SWLAYOUT"
_BLOCK = struct.Struct("<8s H H I I")
_CRC_SIZE = 4
_ENTRY = struct.Struct("<H H")
_MAX_BYTES = 1 << 16
_CONTENT_SIZE = SLOT_SIZE - 4

Read = Callable[[int, int], bytes]
"""Reads bytes from the ring: (offset, size)."""


class LayoutCondition(StrEnum):
    """The state of a ring's slot layout."""

    DESCRIBED = "described"
    """The ring describes its slots."""
    DAMAGED = "damaged"
    """Its layout block cannot be read; its slots are read as this version writes them."""


class RingLayout(NamedTuple):
    """How to read a ring's slots: a converter for each kind that the reader supports."""

    condition: LayoutCondition
    converters: Mapping[int, Converter]


def pack_layout() -> bytes:
    """Return the layout block for the rings that this version writes.

    Raises:
        ValueError: it does not fit into the header.
    """
    texts = _own_texts()
    entries = b"".join(_ENTRY.pack(kind, len(text)) for kind, text in texts.items())
    content = entries + b"".join(texts.values())
    offset = LAYOUT_AT + _BLOCK.size + _CRC_SIZE
    if offset + len(content) > HEADER_SIZE:
        raise ValueError(f"a layout of {len(content)} bytes does not fit into a ring's header")
    block = _BLOCK.pack(_MAGIC, 1, len(texts), offset, len(content))
    return block + zlib.crc32(content, zlib.crc32(block)).to_bytes(_CRC_SIZE, "little") + content


def read_layout(read: Read) -> RingLayout:
    """Read the layout block; without a whole one, return this version's layout."""
    block = read(LAYOUT_AT, _BLOCK.size + _CRC_SIZE)
    try:
        texts = _described(block, read)
        converters = {kind: _converter(kind, text) for kind, text in texts.items()}
    except LayoutError:
        return RingLayout(LayoutCondition.DAMAGED, _own_converters())
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


def _own_texts() -> dict[Kind, bytes]:
    """Return the description of each kind's slot as this version writes it, by number."""
    return {kind: _slot_text(SLOT_DTYPES[kind]) for kind in sorted(RING_KINDS)}


def _slot_text(slot: np.dtype[np.void]) -> bytes:
    """Return a slot's description without its padding."""
    fields = [(name, slot[name].str) for name in slot.names or () if name != "rest"]
    return layouts.describe(np.dtype(fields)).encode()


def _slot_dtype(packed: np.dtype[np.void]) -> np.dtype[np.void]:
    """Return the fields of `packed` as a dtype that is padded to a slot's length.

    Raises:
        LayoutError: the fields are longer than a slot.
    """
    if packed.itemsize > _CONTENT_SIZE:
        raise LayoutError(f"{packed.itemsize} bytes of a slot that holds {_CONTENT_SIZE}")
    names = list(packed.names or ())
    formats = [packed[name] for name in names]
    # u8 u2 u4 -> 0, 8, 10
    offsets = list(accumulate((field.itemsize for field in formats[:-1]), initial=0))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": SLOT_SIZE})


@lru_cache(maxsize=64)
def _converter(kind: int, text: bytes) -> Converter | None:
    """Return one converter for all rings with this description; None for an unknown kind.

    Raises:
        LayoutError: it is not a layout of a slot.
    """
    slot = _slot_dtype(layouts.parse(text))
    return _converters({kind: slot}).get(kind)


@cache
def _own_converters() -> dict[int, Converter]:
    """Return converters of the slots that this version writes."""
    texts = _own_texts()
    return _converters({kind: _slot_dtype(layouts.parse(text)) for kind, text in texts.items()})


def _converters(slots: Mapping[int, np.dtype[np.void]]) -> dict[int, Converter]:
    return {
        kind: Converter(slot, DTYPES[Kind(kind)], UNKNOWN[Kind(kind)])
        for kind, slot in slots.items()
        if kind in RING_KINDS
    }
