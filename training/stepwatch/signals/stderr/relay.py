"""The process between another one and its stderr: passes every byte on and keeps the last lines.

It ends when no process has the other end open any more. Its stored lines are without secrets; its
own memory holds the newest `KEPT_BYTES` unchanged.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import termios
import time
from collections.abc import Callable
from typing import NamedTuple

KEPT_BYTES = 1 << 14
STORE_SECONDS = 0.5
"""Longest time until received lines are stored; at the end, at once."""
_CHUNK = 1 << 16
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
"""Signals that end a whole process group or job step, whose last lines are still to come."""
_KEPT_OPEN = 6

Store = Callable[[bytes, bool, bool], None]
"""Stores the newest bytes: (bytes, whether earlier ones are lost, whether nothing follows)."""


class Ends(NamedTuple):
    """A relay's descriptors: the source, the target, and one that its end closes."""

    source: int
    target: int
    alive: int


def detach(ends: Ends) -> Ends:
    """Detach from the session, the signals and the descriptors of the parent process."""
    os.setsid()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    copies = [fcntl.fcntl(end, fcntl.F_DUPFD, 16) for end in ends]
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, end in enumerate([nothing, nothing, nothing, *copies]):
        os.dup2(end, target)
    os.closerange(_KEPT_OPEN, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    return Ends(3, 4, 5)


def relay(ends: Ends, store: Store) -> None:
    """Pass bytes on until the end of `ends.source`, and store the newest."""
    poll = select.poll()
    poll.register(ends.source, select.POLLIN)
    newest, cut, due = bytearray(), False, 0.0
    while True:
        wait = max(0.0, due - time.monotonic()) * 1000 if due else None
        if poll.poll(wait):
            data = _read(ends.source)
            if not data:
                break
            pass_on(data, ends.target)
            newest += data
            cut = cut or len(newest) > KEPT_BYTES
            del newest[:-KEPT_BYTES]
            due = due or time.monotonic() + STORE_SECONDS
        if due and time.monotonic() >= due:
            store(bytes(newest), cut, False)
            due = 0.0
    store(bytes(newest), cut, True)


def pass_on(data: bytes, target: int) -> None:
    """Write all `data`; bytes that the target refuses (a closed pipe, a full disk) are lost."""
    remaining = memoryview(data)
    while len(remaining):
        try:
            remaining = remaining[os.write(target, remaining) :]
        except BlockingIOError:  # another process made it non-blocking
            poll = select.poll()
            poll.register(target, select.POLLOUT)
            poll.poll()
        except OSError:
            return


def follow_size(target: int, terminal: int) -> None:
    """Set `terminal` to the size of the terminal `target`."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


def _read(source: int) -> bytes:
    """Return the next bytes; none at the end, which a terminal reports as an error."""
    try:
        return os.read(source, _CHUNK)
    except OSError:
        return b""
