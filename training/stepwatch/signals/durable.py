"""Files that survive a crash: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import os
from pathlib import Path

from .places.owned import open_new


def write_durably(path: Path, data: bytes) -> None:
    """Replace `path` by `data` at once: after a crash the old or the new content is there.

    Raises:
        OSError: the disk is full or lost, or the folder is missing; the old content stays.
    """
    replace(path, data, durable=True)


def replace(path: Path, data: bytes, *, mode: int | None = None, durable: bool = False) -> None:
    """Replace `path` by `data` at once: a reader sees the old or the new content.

    No link is followed, neither at `path` nor beside it: another user may have put one there.

    Args:
        path: the file's path.
        data: its content.
        mode: its exact mode; without one 0664 less the umask.
        durable: wait until file and folder are on their storage.
    Raises:
        OSError: the disk is full or lost, or the folder cannot be written; the old content stays.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    temporary = Path(f".{path.name}.{os.getpid()}")
    exists = False
    try:
        with open(open_new(temporary, 0o664 if mode is None else mode, folder), "wb") as file:
            exists = True
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        exists = False
        if durable:
            os.fsync(folder)
    finally:
        if exists:
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


def sync(path: Path) -> None:
    """Wait until a file's or folder's content is on its storage.

    Raises:
        OSError: it cannot be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
