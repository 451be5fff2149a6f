"""The agent's side of the black box: reads a live ring, a dead one, or one being replaced."""

from __future__ import annotations

import contextlib
import os
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.arrays import Rows
from stepwatch.signals.errors import RingError
from stepwatch.signals.phrases import file_problem
from stepwatch.signals.records import Kind

from . import layout
from .copies import compressed, is_copy, open_copy
from .described import LayoutCondition, read_layout
from .layout import CollectiveLine, DeviceLine, Identity, LiveLine
from .slots import RingSlots, are_whole, by_kind, is_whole, rows_of


class RingRows(NamedTuple):
    """The result of one read.

    `rows` maps each kind seen to an array with `records.DTYPES[kind]`; `next_seq` is the start of
    the next read; `overruns` counts records overwritten unread, `torn` those with a wrong CRC.
    `RingReader.unknown_kinds` counts records with kinds that the reader does not support.
    """

    rows: dict[Kind, Rows]
    next_seq: int
    overruns: int
    torn: int


class TakenSlots(NamedTuple):
    """`RingRows` whose records were not converted."""

    slots: dict[Kind, RingSlots]
    next_seq: int
    overruns: int
    torn: int


class Lines(NamedTuple):
    """A ring's live lines, next to its records.

    `heartbeat_ns`, `hook_errors` and `head` are as in `RingReader`.
    """

    live: LiveLine
    collective: CollectiveLine
    device: DeviceLine
    heartbeat_ns: int
    hook_errors: int
    head: int


class RingReader:
    """Reads one ring file from outside the rank.

    It reads with `pread` and maps nothing: truncating a mapped file kills its reader (SIGBUS).
    Missing bytes then read as zeros, and `is_replaced` reports it. Slots are decoded by field name,
    as the ring describes them: its writer may have another version. `layout_condition` says whether
    the ring describes them; `unknown_kinds` counts whole records with unknown kinds. The path may
    be a copy's (`copies`): it is then unpacked into memory.

    With `below`, a directory above `path`, no link between the two is followed: users write there,
    and a reader may be root.

    Raises:
        RingError: the file cannot be opened, is not a ring, is shorter than it says, is reached
            through a link, or has a later version and does not describe its slots.
    """

    def __init__(self, path: Path, below: Path | None = None) -> None:
        self.path = path
        try:
            # Without O_NONBLOCK a FIFO in the ring directory would hold the agent for ever.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            opened = open_copy if is_copy(path.name) else os.open
            self._file = opened(path, flags)
        except (OSError, ValueError) as error:
            raise RingError(f"cannot read the ring {path}: {file_problem(error)}") from error
        self._closing = weakref.finalize(self, os.close, self._file)
        self.unknown_kinds = 0
        self._header = b""
        try:
            self._refuse_links(below)
            self.identity, self.inode, self._size = self._checked()
        except (OSError, ValueError) as error:
            self._closing()
            raise RingError(f"cannot read the ring {path}: {file_problem(error)}") from error

    def _refuse_links(self, below: Path | None) -> None:
        # The kernel reports the opened file: a path checked before may change until it is opened.
        if below is None or self.path == below:
            return
        target = os.readlink(f"/proc/self/fd/{self._file}")
        if target != str(below.resolve() / self.path.relative_to(below)):
            raise ValueError(f"its path leads to {target}")

    def _checked(self) -> tuple[Identity, int, int]:
        status = os.fstat(self._file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        self.layout_condition, self._converters = read_layout(self._bytes)
        identity = self._identity(os.pread(self._file, layout.HEADER_SIZE, 0))
        needed = layout.HEADER_SIZE + identity.capacity * layout.SLOT_SIZE
        if status.st_size < needed and not is_copy(self.path.name):
            raise ValueError(f"{status.st_size} bytes long instead of {needed}")
        return identity, status.st_ino, needed

    @property
    def owner(self) -> int:
        """User id of the file's owner."""
        return os.fstat(self._file).st_uid

    def refresh_identity(self) -> Identity:
        """Read the identity again; the old one stays while the writer replaces it."""
        header = self._bytes(0, layout.HEADER_SIZE)
        if header[: layout.LIVE_AT] != self._header:
            with contextlib.suppress(ValueError):
                self.identity = self._identity(header)
                self._header = header[: layout.LIVE_AT]
        return self.identity

    def _identity(self, header: bytes) -> Identity:
        described = self.layout_condition is LayoutCondition.DESCRIBED
        return layout.unpack_identity(header, described=described)

    def is_replaced(self) -> bool:
        """Return whether the path now names another file, or none, or the file was truncated."""
        try:
            status = os.stat(self.path)
        except OSError:
            return True
        return status.st_ino != self.inode or status.st_size < self._size

    @property
    def head(self) -> int:
        """Number of the newest complete record; 0 while there is none."""
        return min(self._word(layout.HEAD_AT), _MAX_HEAD)

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
        """Return the current live line."""
        return layout.unpack_live(*self._words(layout.LIVE_AT, 2))

    def collective(self) -> CollectiveLine:
        """Return the current collective line."""
        return layout.unpack_collective(*self._words(layout.COLLECTIVE_AT, 3))

    def device(self) -> DeviceLine:
        """Return the current device line; with state `UNKNOWN` if no device is timed."""
        return layout.unpack_device(*self._words(layout.DEVICE_AT, 3))

    def lines(self) -> Lines:
        """Return all current lines, at the cost of one if the rank does not write meanwhile."""
        size = layout.CLOSED_AT - layout.LIVE_AT
        block = self._bytes(layout.LIVE_AT, size)
        if block != self._bytes(layout.LIVE_AT, size):
            return Lines(
                self.live(), self.collective(), self.device(),
                self.heartbeat_ns, self.hook_errors, self.head,
            )  # fmt: skip
        words = memoryview(block).cast("Q")
        live, beat, errors, collective, device, head = (
            (offset - layout.LIVE_AT) // 8
            for offset in (
                *(layout.LIVE_AT, layout.HEARTBEAT_AT, layout.HOOK_ERRORS_AT),
                *(layout.COLLECTIVE_AT, layout.DEVICE_AT, layout.HEAD_AT),
            )
        )
        return Lines(
            layout.unpack_live(*words[live : live + 2]),
            layout.unpack_collective(*words[collective : collective + 3]),
            layout.unpack_device(*words[device : device + 3]),
            words[beat],
            words[errors],
            min(words[head], _MAX_HEAD),
        )

    def read(self, next_seq: int = 1, limit: int = 65_536) -> RingRows:
        """Read records from number `next_seq` on, at most `limit`.

        A cursor past the head (for another ring than this one) restarts at the beginning.
        """
        result = self.take(next_seq, limit)
        rows = {kind: rows_of([slots]) for kind, slots in result.slots.items()}
        return RingRows(rows, result.next_seq, result.overruns, result.torn)

    def take(self, next_seq: int = 1, limit: int = 65_536) -> TakenSlots:
        """Like `read`, but without conversion: `rows_of` converts the records of many rings."""
        head = self.head
        first = next_seq if 1 <= next_seq <= head + 1 else 1
        oldest = max(first, head - self.identity.capacity + 1)
        overruns, torn = oldest - first, 0
        last = min(head, oldest + limit - 1)
        slots: dict[int, list[bytes]] = {}
        for begun, chunk in self._chunks(oldest, last):
            if are_whole(chunk, begun):
                for kind, raw in by_kind(chunk):
                    slots.setdefault(kind, []).append(raw)
                continue
            for seq, slot in _one_by_one(begun, chunk):
                stored_seq = int.from_bytes(slot[:8], "little")
                if stored_seq == seq and is_whole(slot):
                    slots.setdefault(int.from_bytes(slot[8:10], "little"), []).append(slot)
                elif stored_seq > seq or self._is_lapped(seq):
                    overruns += 1
                else:
                    torn += 1
        readable = {Kind(kind): self._slots(kind, raw) for kind, raw in slots.items()
                    if kind in self._converters}  # fmt: skip
        unreadable = (block for kind, raw in slots.items() if kind not in readable for block in raw)
        self.unknown_kinds += sum(map(len, unreadable)) // layout.SLOT_SIZE
        return TakenSlots(readable, last + 1 if last >= oldest else oldest, overruns, torn)

    def _slots(self, kind: int, raw: list[bytes]) -> RingSlots:
        return RingSlots(self.identity.rank, self._converters[kind], b"".join(raw))

    def copy(self) -> bytes:
        """Return the whole ring in the form of a copy (`copies`).

        Raises:
            OSError: it cannot be read.
        """
        used = min(self.head + 1, self.identity.capacity)  # the writer may be inside the next slot
        return compressed(self._file, layout.HEADER_SIZE + used * layout.SLOT_SIZE)

    def close(self) -> None:
        """Release the ring."""
        self._closing()
        self._file = -1

    def _chunks(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        size, capacity = layout.SLOT_SIZE, self.identity.capacity
        while first <= last:
            place = (first - 1) % capacity
            count = min(_SLOTS_AT_ONCE, last - first + 1, capacity - place)
            yield first, self._bytes(layout.HEADER_SIZE + place * size, count * size)
            first += count

    def _is_lapped(self, seq: int) -> bool:
        # The writer may be inside the slot already: its head moves only when it has left.
        return self.head + 1 >= seq + self.identity.capacity

    def _bytes(self, offset: int, size: int) -> bytes:
        return os.pread(self._file, size, offset).ljust(size, b"\0")

    def _steady(self, offset: int, size: int) -> bytes:
        for _ in range(8):
            content = self._bytes(offset, size)
            if content == self._bytes(offset, size):
                break
        return content

    def _word(self, offset: int) -> int:
        return self._words(offset, 1)[0]

    def _words(self, offset: int, count: int) -> tuple[int, ...]:
        words = memoryview(self._steady(offset, 8 * count)).cast("Q")
        return tuple(words)


_SLOTS_AT_ONCE = 256
_MAX_HEAD = 1 << 62
"""More records than a rank can write in a thousand years: a larger head is damage."""


def _one_by_one(first: int, chunk: bytes) -> Iterator[tuple[int, bytes]]:
    size = layout.SLOT_SIZE
    for index in range(len(chunk) // size):
        yield first + index, chunk[index * size : (index + 1) * size]


def find_rings(root: Path) -> Iterator[Path]:
    """Yield ring files, and copies of rings, below `root`.

    `root` is a ring directory, or a job's or an attempt's part of it.
    """
    if root.is_file():
        yield root
        return
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names, key=lambda name: (len(name), name)):
            if name.isdigit() or is_copy(name):
                yield Path(folder) / name
