"""One agent per spool: a lock on its folder, given back when the agent ends in whatever way."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Callable
from pathlib import Path

from stepwatch.signals.errors import ConfigurationError


def claim(folder: Path, owner: object) -> Callable[[], object]:
    """Lock a spool until the returned call, or until `owner` is collected.

    Raises:
        ConfigurationError: another agent holds it.
        OSError: the folder cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    release = weakref.finalize(owner, os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigurationError(
            f"another agent uses the spool {folder}; stop it, or pass another --spool"
        ) from error
    probe = folder / ".writable"
    probe.touch()
    probe.unlink()
    return release
