"""A ring's slots as the writer fills them: a record is stored whole, and counted only then."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from . import layout

_HEADER, _SLOT, _HEAD = layout.HEADER_SIZE, layout.SLOT_SIZE, layout.HEAD_AT // 8

Packers = Mapping[int, Callable[..., bytes]]
"""`struct.Struct.pack` of each record kind."""
PACKERS: Packers = {int(kind): slot.pack for kind, slot in layout.SLOT_STRUCTS.items()}


class Slots(Protocol):
    """Writes records into a ring's mapped memory; `written` counts them."""

    written: int

    def append(self, kind: int, record: tuple[int | float | bytes, ...]) -> None:
        """Append one record: step, moment in ns, then the fields of `records.BODIES[kind]`."""

    def release(self) -> None:
        """Store nothing more, so that the memory can be unmapped."""


class SlotWriter:
    """The slots in plain Python."""

    def __init__(
        self, memory: mmap.mmap, capacity: int, packers: Packers, written: int = 0
    ) -> None:
        self._memory = memory
        self._capacity = capacity
        self._packers = packers
        self._words = memoryview(memory).cast("Q")
        self.written = written
        """Records written so far."""

    def append(self, kind: int, record: tuple[int | float | bytes, ...]) -> None:
        """Append one record: step, moment in ns, then the fields of `records.BODIES[kind]`.

        Raises:
            struct.error: a number does not fit its field.
            ValueError: the ring is closed.
        """
        written = self.written
        slot = self._packers[kind](written + 1, kind, 0, *record)
        offset = _HEADER + written % self._capacity * _SLOT
        self._memory[offset : offset + _SLOT] = slot + zlib.crc32(slot).to_bytes(4, "little")
        self.written = written + 1
        self._words[_HEAD] = written + 1

    def release(self) -> None:
        """Store nothing more."""
        self._words.release()
