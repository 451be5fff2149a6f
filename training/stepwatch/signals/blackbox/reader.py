"""The agent's side of the black box: reads a live ring, a dead one, or one being replaced."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.signals.errors import RingError
from stepwatch.signals.records import BODIES, COMMON, DTYPES, RING_KINDS, Kind

from . import layout
from .layout import CollectiveLine, Identity, LiveLine

Rows = np.ndarray[tuple[int], np.dtype[np.void]]


class RingRows(NamedTuple):
    """What one read brought.

    `rows` maps each kind seen to an array of `records.DTYPES[kind]`; `next_seq` is where the next
    read starts; `overruns` counts records overwritten unread, `torn` those whose CRC was wrong.
    """

    rows: dict[Kind, Rows]
    next_seq: int
    overruns: int
    torn: int


class RingReader:
    """Reads one ring file from outside the rank.

    Raises:
        RingError: the file cannot be opened, is not a ring, or is shorter than it says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise RingError(f"cannot read the ring {path}: {error}") from error
        self.inode = status.st_ino
        try:
            self.identity = layout.unpack_identity(self._map[: layout.HEADER_SIZE])
            needed = layout.HEADER_SIZE + self.identity.capacity * layout.SLOT_SIZE
            if len(self._map) < needed:
                raise ValueError(f"{len(self._map)} bytes long instead of {needed}")
        except ValueError as error:
            self._map.close()
            raise RingError(f"cannot read the ring {path}: {error}") from error

    def refresh_identity(self) -> Identity:
        """Read the identity again; the old one stands while the writer is replacing it."""
        with contextlib.suppress(ValueError):
            self.identity = layout.unpack_identity(self._map[: layout.HEADER_SIZE])
        return self.identity

    def is_replaced(self) -> bool:
        """Whether the path now names another file, or none."""
        try:
            return os.stat(self.path).st_ino != self.inode
        except OSError:
            return True

    @property
    def head(self) -> int:
        """Number of the newest complete record; 0 while there is none."""
        return self._word(layout.HEAD_AT)

    @property
    def closed(self) -> bool:
        """Whether the rank finished on purpose."""
        return self._word(layout.CLOSED_AT) != 0

    @property
    def heartbeat_ns(self) -> int:
        """Monotonic moment at which the rank's side thread last ran; 0 before the first."""
        return self._word(layout.HEARTBEAT_AT)

    @property
    def hook_errors(self) -> int:
        """Errors that the hooks swallowed."""
        return self._word(layout.HOOK_ERRORS_AT)

    def live(self) -> LiveLine:
        """The live line as it stands now."""
        return layout.unpack_live(*self._pair(layout.LIVE_AT))

    def collective(self) -> CollectiveLine:
        """The collective line as it stands now."""
        return layout.unpack_collective(*self._pair(layout.COLLECTIVE_AT))

    def read(self, next_seq: int = 1, limit: int = 65_536) -> RingRows:
        """Read records from number `next_seq` on, at most `limit` of them.

        A cursor past the head (the ring is not the one it was made for) starts over.
        """
        head = self.head
        first = next_seq if 1 <= next_seq <= head + 1 else 1
        oldest = max(first, head - self.identity.capacity + 1)
        overruns, torn = oldest - first, 0
        last = min(head, oldest + limit - 1)
        slots: dict[Kind, list[bytes]] = {}
        for seq in range(oldest, last + 1):
            slot = self._slot(seq)
            found = int.from_bytes(slot[:8], "little")
            if found > seq:
                overruns += 1
            elif found != seq or not _is_whole(slot):
                torn += 1
            else:
                slots.setdefault(Kind(int.from_bytes(slot[8:10], "little")), []).append(slot)
        rows = {kind: _rows(kind, self.identity.rank, raw) for kind, raw in slots.items()}
        return RingRows(rows, last + 1 if last >= oldest else oldest, overruns, torn)

    def close(self) -> None:
        """Unmap the ring."""
        self._map.close()

    def _slot(self, seq: int) -> bytes:
        at = layout.HEADER_SIZE + (seq - 1) % self.identity.capacity * layout.SLOT_SIZE
        slot = self._map[at : at + layout.SLOT_SIZE]
        # A writer that lapped us may be inside this slot: one more look tells torn from overrun.
        return slot if _is_whole(slot) else self._map[at : at + layout.SLOT_SIZE]

    def _word(self, at: int) -> int:
        return int.from_bytes(self._map[at : at + 8], _NATIVE)

    def _pair(self, at: int) -> tuple[int, int]:
        for _ in range(8):
            pair = self._map[at : at + 16]
            if pair == self._map[at : at + 16]:
                break
        return int.from_bytes(pair[:8], _NATIVE), int.from_bytes(pair[8:], _NATIVE)


_NATIVE = sys.byteorder
_KNOWN_KINDS = frozenset(int(kind) for kind in RING_KINDS)


def _is_whole(slot: bytes) -> bool:
    return (
        zlib.crc32(slot[:-4]) == int.from_bytes(slot[-4:], "little")
        and int.from_bytes(slot[8:10], "little") in _KNOWN_KINDS
    )


def _rows(kind: Kind, rank: int, raw: list[bytes]) -> Rows:
    slots = np.frombuffer(b"".join(raw), dtype=layout.SLOT_DTYPES[kind])
    rows = np.zeros(len(slots), dtype=DTYPES[kind])
    for name, _ in (*COMMON[1:], *BODIES[kind]):
        rows[name] = slots[name]
    rows["rank"] = rank
    return rows


def find_rings(root: Path) -> Iterator[Path]:
    """Ring files below `root`, which is a ring directory, a job's or an attempt's part of it."""
    if root.is_file():
        yield root
        return
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names, key=lambda name: (len(name), name)):
            if name.isdigit():
                yield Path(folder) / name
