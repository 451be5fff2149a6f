"""One agent per spool: a lock on its folder that ends with the agent."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Callable
from pathlib import Path

from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.places.owned import own_folder


def claim(folder: Path, owner: object) -> Callable[[], object]:
    """Lock a spool until the returned function is called or `owner` is collected.

    Raises:
        ConfigurationError: another agent holds it.
        OSError: the folder cannot be read or written, or another user can change it.
    """
    own_folder(folder)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    release = weakref.finalize(owner, os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigurationError(
            f"another agent uses the spool {folder}; stop it, or pass another --spool"
        ) from error
    try_writing(folder)
    return release


def try_writing(folder: Path) -> None:
    """Write one byte to a spool's disk, and remove it.

    Raises:
        OSError: the disk is full, read-only or gone.
    """
    probe = folder / ".writable"
    try:
        write_durably(probe, b"\0")
    finally:
        probe.unlink(missing_ok=True)


class OwnFolder:
    """A folder that is this user's alone; a check costs one system call while it stays the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._owned: tuple[int, ...] | None = None
        """Device, inode, owner and mode when the folder was found to be this user's alone."""

    def check(self) -> None:
        """Make the folder this user's alone, unless it is still the one that was checked.

        Raises:
            OSError: the folder cannot be created or belongs to another user.
        """
        try:
            status = os.lstat(self._folder)
            found = (status.st_dev, status.st_ino, status.st_uid, status.st_mode)
        except OSError:
            found = None
        if found is None or found != self._owned:
            own_folder(self._folder)
            self._owned = found
