"""Bounded reads: a deadline, a rate limit, a count of bytes, and regular files only."""

from __future__ import annotations

import mmap
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import TracebackType

from .limits import Limits

FOREIGN = "it belongs to another user"
"""The problem of a file or folder that the wanted user does not own."""
Progress = Callable[[int, int, str], None]
"""Called with the bytes read, all bytes, and the file's name."""


class DeadlineError(Exception):
    """The verification's time is over."""


class UncheckableError(Exception):
    """A file that cannot be checked; the message is the reason."""


class DamageError(Exception):
    """A file that is damaged; the message is the reason."""


@dataclass
class Session:
    """One verification's limits, clock and counters; `rate` is in bytes a second."""

    limits: Limits = field(default_factory=Limits)
    deadline_s: float | None = None
    rate: float | None = None
    progress: Progress | None = None
    total: int = 0
    bytes_read: int = 0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    def check_deadline(self) -> None:
        """Raise `DeadlineError` after the deadline."""
        if self.deadline_s is not None and self.clock() > self.deadline_s:
            raise DeadlineError

    def account(self, count: int, name: str) -> None:
        """Count read bytes, report progress, and pause as the rate limit demands."""
        self.bytes_read += count
        if self.progress is not None:
            self.progress(self.bytes_read, self.total, name)
        if self.rate is not None:
            ahead = self.bytes_read / self.rate - (self.clock() - self.began_s)
            if ahead > 0:
                self.pause(ahead)
        self.check_deadline()

    @property
    def chunk_bytes(self) -> int:
        """Bytes per read: fewer under a low rate, so that reads spread over time."""
        if self.rate is None:
            return self.limits.chunk_bytes
        return max(min(self.limits.chunk_bytes, int(self.rate / 8)) // 65536, 1) * 65536


@dataclass(frozen=True)
class Window:
    """A part of an open file that is read like a file of its own."""

    descriptor: int
    name: str
    start: int
    size: int

    def read(self, position: int, count: int) -> bytes:
        """Return at most `count` bytes from `position`; fewer at the window's end.

        Raises:
            OSError: the storage cannot be read.
        """
        count = min(count, self.size - position)
        if position < 0 or count <= 0:
            return b""
        data = os.pread(self.descriptor, count, self.start + position)
        while len(data) < count:
            more = os.pread(self.descriptor, count - len(data), self.start + position + len(data))
            if not more:
                break
            data += more
        return data

    def part(self, start: int, size: int) -> Window:
        """Return a window inside this one.

        Raises:
            DamageError: it reaches beyond this one.
        """
        if start < 0 or size < 0 or start + size > self.size:
            raise DamageError(f"bytes {start} to {start + size} are beyond its end, {self.size}")
        return Window(self.descriptor, self.name, self.start + start, size)


class WindowFile:
    """A window as the file object that `pickletools` reads; it never allocates by a claim."""

    def __init__(self, window: Window, limit: int, start: int = 0) -> None:
        self._window = window
        self._limit = limit
        self._position = start
        self._buffer = b""
        self._offset = 0

    def tell(self) -> int:
        """Return the position in the window."""
        return self._position - (len(self._buffer) - self._offset)

    def _fill(self, count: int) -> None:
        if len(self._buffer) - self._offset >= count:
            return
        if self.tell() + count > self._limit:
            raise UncheckableError(f"its pickle has more than {self._limit} bytes")
        needed = max(count - (len(self._buffer) - self._offset), 1 << 16)
        more = self._window.read(self._position, needed)
        self._position += len(more)
        self._buffer = self._buffer[self._offset :] + more
        self._offset = 0

    def read(self, count: int) -> bytes:
        """Return at most `count` bytes."""
        self._fill(min(count, self._window.size - self.tell()))
        data = self._buffer[self._offset : self._offset + count]
        self._offset += len(data)
        return data

    def readline(self) -> bytes:
        """Return the bytes up to a newline, 64 KiB at most."""
        self._fill(min(1 << 16, self._window.size - self.tell()))
        end = self._buffer.find(b"\n", self._offset) + 1 or len(self._buffer)
        data = self._buffer[self._offset : min(end, self._offset + (1 << 16))]
        self._offset += len(data)
        return data


def open_regular(path: str, owner: int | None = None) -> int:
    """Open a regular file for reading and return its descriptor.

    Raises:
        UncheckableError: it is no regular file, or `owner`, a user id, does not own it.
        OSError: it cannot be opened.
    """
    # Without O_NONBLOCK the open of a pipe waits for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    status = os.fstat(descriptor)
    is_regular = stat.S_ISREG(status.st_mode)
    if is_regular and owner in (None, status.st_uid):
        return descriptor
    os.close(descriptor)
    raise UncheckableError(FOREIGN if is_regular else "it is no regular file")


class ReadAhead:
    """Reads a file's chunks on a thread of its own, into buffers that are used again.

    Close it after use; it holds `limits.ahead` buffers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._size = session.chunk_bytes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        count = session.limits.ahead if session.rate is None else 1
        self._buffers = [memoryview(mmap.mmap(-1, self._size)) for _ in range(count)]

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown()

    def chunks(self, window: Window) -> Iterator[memoryview]:
        """Yield the window's bytes in order; a chunk is valid until the next one.

        Raises:
            DeadlineError: the session's time is over.
            OSError: the storage cannot be read.
        """
        free, dropped = deque(self._buffers), 0
        _drop(window, 0, window.size)  # the bytes come from the storage, not from memory
        starts = iter(range(0, window.size, self._size))
        pending: deque[tuple[memoryview, int, Future[int]]] = deque()
        try:
            while True:
                while free and (start := next(starts, None)) is not None:
                    buffer = free.popleft()
                    pending.append(
                        (buffer, start, self._thread.submit(_fill, window, start, buffer))
                    )
                if not pending:
                    return
                buffer, start, reading = pending.popleft()
                count = reading.result()
                self._session.account(count, window.name)
                yield buffer[:count]
                free.append(buffer)
                if start - dropped >= self._session.limits.drop_bytes:
                    _drop(window, dropped, start)
                    dropped = start
        finally:
            _drop(window, dropped, window.size)
            # The next file's reads must not share a buffer with these.
            wait([reading for *_, reading in pending if not reading.cancel()])


def _drop(window: Window, start: int, stop: int) -> None:
    """Drop the kernel's copy of a part, so that the trainer's files stay in memory."""
    place = window.start + start
    os.posix_fadvise(window.descriptor, place, stop - start, os.POSIX_FADV_DONTNEED)


def _fill(window: Window, start: int, buffer: memoryview) -> int:
    """Read into a buffer up to the window's or the file's end; return the number of bytes."""
    wanted, count = min(len(buffer), window.size - start), 0
    while count < wanted:
        place = window.start + start + count
        more = os.preadv(window.descriptor, [buffer[count:wanted]], place)
        if not more:
            break
        count += more
    return count
