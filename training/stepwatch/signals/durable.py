"""Files that survive a crash: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, data: bytes) -> None:
    """Replace `path` by `data` at once: after a crash the old or the new content is there.

    Raises:
        OSError: the disk is full or gone, or the folder is missing; the old content stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until the content of a file or a folder is on its storage.

    Raises:
        OSError: it cannot be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
