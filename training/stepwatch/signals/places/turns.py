"""A lock for changing a ring directory, which ends with its owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_SECONDS, _POLL_SECONDS = 2.0, 0.01
"""How long a process waits for others that choose a place; one of them may be stopped."""


@contextlib.contextmanager
def alone_in(root: Path) -> Iterator[None]:
    """Keep other processes from choosing a place below `root` meanwhile.

    The lock ends with its owner, also after kill -9. If the filesystem has no locks, or the lock is
    not released, the caller proceeds without it.
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
    """Return whether this process now has the lock on an open directory; it ends with the handle.

    It never waits. On a filesystem without locks every caller gets True.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
