"""Whose turn it is to change a directory of rings: a lock that ends with its owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_SECONDS, _POLL_SECONDS = 2.0, 0.01
"""How long a process waits for others that look for a place; one of them may be stopped."""


@contextlib.contextmanager
def alone_in(root: Path) -> Iterator[None]:
    """Keep other processes from choosing a place below `root` meanwhile.

    The lock ends with its owner, also by kill -9. Where the filesystem has none, or somebody keeps
    it, all goes on without.
    """
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
            except OSError:
                break
            else:
                break
        yield
    finally:
        with contextlib.suppress(OSError):  # a child forked meanwhile has the lock too
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def take_turn(handle: int) -> bool:
    """Whether this process is alone now in an open directory; the lock ends with the handle.

    It never waits. A filesystem without locks has no turns: whoever asks has one.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
