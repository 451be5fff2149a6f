"""The rank's side of the black box: no system call, no lock, no allocation that grows."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from stepwatch.signals.places.directories import cannot_create

from . import layout
from .described import LAYOUT_AT, pack_layout
from .files import FileCondition, new_file, renew
from .layout import DeviceLine, Identity
from .slot_writer import PACKERS, Slots, SlotWriter

_HEADER, _HEAD = layout.HEADER_SIZE, layout.HEAD_AT // 8
S = TypeVar("S", bound=Slots)


class RingWriter:
    """Writes one rank's records and live lines.

    The file appears under its final name only when it is complete. All its blocks are allocated
    before it is mapped: a store into a hole in a full filesystem would kill the trainer (SIGBUS).
    `heartbeat_ns`, a monotonic moment, is in it from the start: other processes use it to detect a
    living rank.

    Raises:
        RingError: the directory or file cannot be created, or the filesystem is full.
    """

    def __init__(self, path: Path, identity: Identity, heartbeat_ns: int = 0) -> None:
        self.path = path
        self.identity = identity
        size = layout.HEADER_SIZE + identity.capacity * layout.SLOT_SIZE
        try:
            self._map = _create(path, size, _header(identity, heartbeat_ns))
        except (OSError, ValueError, struct.error) as error:
            raise cannot_create(path, error) from error
        self.words = memoryview(self._map).cast("Q")
        """The ring as native 64-bit words; the timeline stores live lines through it."""
        self._slots: Slots = SlotWriter(self._map, identity.capacity, PACKERS)
        self.append = self._slots.append
        """Appends one record: its kind, then a tuple of step, moment in ns and body."""
        self._moving = threading.Lock()

    def write(self, kind: int, step: int, time_ns: int, *body: int | float | bytes) -> None:
        """Append one record; `body` holds the fields of `records.BODIES[kind]` in order."""
        self.append(kind, (step, time_ns, *body))

    def write_through(self, kind: Callable[..., S]) -> S:
        """Append through slots of `kind` from now on, which gets what `SlotWriter` gets."""
        if type(self._slots) is not kind:
            slots = kind(self._map, self.identity.capacity, PACKERS, self._slots.written)
            self._slots.release()
            self._slots, self.append = slots, slots.append
        return cast("S", self._slots)

    def set_heartbeat(self, monotonic_ns: int) -> None:
        """Publish that the hooks' side thread got the interpreter at this moment."""
        self.words[layout.HEARTBEAT_AT // 8] = monotonic_ns

    def set_device(self, line: DeviceLine) -> None:
        """Publish the device's last known work; only one thread at a time may."""
        index = layout.DEVICE_AT // 8
        self.words[index], self.words[index + 1], self.words[index + 2] = layout.pack_device(line)

    def set_hook_errors(self, count: int) -> None:
        """Publish the number of hook errors so far."""
        self.words[layout.HOOK_ERRORS_AT // 8] = count

    def set_identity(self, identity: Identity) -> None:
        """Replace the identity, for example once the mesh is known."""
        self.identity = identity
        raw = layout.pack_identity(identity)
        self._map[: len(raw)] = raw

    def move(self, path: Path, identity: Identity) -> None:
        """Continue at `path` as `identity`; written records stay, and so does a reader's position.

        Raises:
            OSError: the directory cannot be written; the ring stays unchanged.
        """
        previous = self.identity
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._moving:
            self.set_identity(identity)
            try:
                os.rename(self.path, path)
            except OSError:
                self.set_identity(previous)
                raise
            self.path = path

    def condition(self) -> FileCondition:
        """Return the file's condition; it costs a system call, so no record's path calls it."""
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return FileCondition.REMOVED
        except OSError:  # no information about the file
            return FileCondition.WHOLE
        return FileCondition.CUT if status.st_size < len(self._map) else FileCondition.WHOLE

    def renew(self, condition: FileCondition) -> None:
        """Continue in a new file at `path` in place of a removed or truncated one.

        The new file is mapped where the old one was: threads that write meanwhile notice nothing.
        A record that a thread writes between copy and mapping is lost; readers count it as torn.

        Raises:
            OSError: no file can be created. Memory that no reader sees then replaces a truncated
                file: the next store into that file would end the process.
        """
        with self._moving:
            renew(self._map, self._remaining_content(condition), self.path)
            if self.words[_HEAD] < self._slots.written:
                self.words[_HEAD] = self._slots.written

    def _remaining_content(self, condition: FileCondition) -> bytes | None:
        """Return a truncated file's remaining content; reading the map beyond it is fatal."""
        if condition is not FileCondition.CUT:
            return None
        content = b""
        with contextlib.suppress(OSError):
            content = self.path.read_bytes()
        if len(content) < _HEADER:
            content = _header(self.identity, 0)
        return content.ljust(len(self._map), b"\0")

    @property
    def written(self) -> int:
        """Records written so far."""
        return self._slots.written

    def close(self) -> None:
        """Mark the ring as finished on purpose and unmap it; the file stays for readers."""
        self.words[layout.CLOSED_AT // 8] = 1
        self.words.release()
        self._slots.release()
        self._map.close()


def _header(identity: Identity, heartbeat_ns: int) -> bytes:
    head = layout.pack_identity(identity).ljust(layout.HEARTBEAT_AT, b"\0")
    beaten = head + heartbeat_ns.to_bytes(8, sys.byteorder)
    return beaten.ljust(LAYOUT_AT, b"\0") + pack_layout()


def _create(path: Path, size: int, header: bytes) -> mmap.mmap:
    with new_file(path, size) as handle:
        mapped = mmap.mmap(handle, size)
        mapped[: len(header)] = header
        return mapped
