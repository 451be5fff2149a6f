"""Small `/proc` and `/sys` files that are read often: each stays open and is read from its start.

Opening, decoding and closing a file with `Path.read_text` takes several times as long as the
kernel needs to write it.
"""

from __future__ import annotations

import contextlib
import os
import weakref

MOST_OPEN = 512
"""Maximum number of open descriptors: half the default process limit."""
_PAGE = 4096
_AT_ONCE = 1 << 16


class KernelFiles:
    """Read files by path; a file that disappeared and returned is opened again.

    A `/proc/PID` descriptor never shows the next process with that number: reading fails, and the
    path is opened again. An object must not be used on both sides of a fork.
    """

    def __init__(self, most_open: int = MOST_OPEN) -> None:
        self._most = most_open
        self._open: dict[str, int] = {}
        self._read_again: set[str] = set()
        weakref.finalize(self, _close_all, self._open)

    def word(self, path: str) -> str:
        """Return a one-value file (at most a page) without surrounding blanks.

        Raises:
            OSError: the file is missing or cannot be read now.
        """
        return self._read(path, is_table=False).strip()

    def text(self, path: str) -> str:
        """Return a whole table, such as `/proc/meminfo`.

        Raises:
            OSError: the file is missing or cannot be read now.
        """
        return self._read(path, is_table=True)

    def number(self, path: str) -> int | None:
        """Return a counter with up to 20 digits; None if there is none."""
        try:
            word = self.word(path)
        except OSError:
            return None
        return int(word) if word.isdecimal() and len(word) < 21 else None

    def word_or(self, path: str, otherwise: str = "") -> str:
        """Return `word`, or `otherwise` if the file cannot be read."""
        try:
            return self.word(path)
        except OSError:
            return otherwise

    def close_unread(self) -> None:
        """Close files that were not read since the last call: their processes have ended."""
        for path in self._open.keys() - self._read_again:
            with contextlib.suppress(OSError):
                os.close(self._open.pop(path))
        self._read_again.clear()

    def close(self) -> None:
        """Close every file."""
        _close_all(self._open)

    def _read(self, path: str, *, is_table: bool) -> str:
        self._read_again.add(path)
        descriptor = self._open.get(path)
        if descriptor is not None:
            try:
                return _content(descriptor, is_table).decode("utf-8", "replace")
            except OSError:  # the device or process is gone; another may have its name
                os.close(self._open.pop(path))
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            data = _content(opened, is_table)
        except OSError:
            os.close(opened)
            raise
        self._keep(path, opened)
        return data.decode("utf-8", "replace")

    def _keep(self, path: str, opened: int) -> None:
        if len(self._open) >= self._most:
            with contextlib.suppress(OSError):
                os.close(self._open.pop(next(iter(self._open))))
        self._open[path] = opened


def read_once(path: str) -> str:
    """Return a file's text; the file is not kept open.

    Raises:
        OSError: the file is missing or cannot be read now.
    """
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return _content(opened, is_table=True).decode("utf-8", "replace")
    finally:
        os.close(opened)


def _content(opened: int, is_table: bool) -> bytes:
    """Read a value with one call, a table until no more data comes.

    The kernel returns only whole lines that fit into a page.
    """
    if not is_table:
        return os.pread(opened, _PAGE, 0)
    data = os.pread(opened, _AT_ONCE, 0)
    while len(data) < MOST_BYTES:
        more = os.pread(opened, _AT_ONCE, len(data))
        if not more:
            break
        data += more
    return data


MOST_BYTES = 8 << 20
"""Maximum table size; a longer table is cut. A node's mounts and disks take about 100 KiB."""


def _close_all(opened: dict[str, int]) -> None:
    while opened:
        with contextlib.suppress(OSError):
            os.close(opened.popitem()[1])
