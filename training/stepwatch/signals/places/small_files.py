"""Small files in folders to which others may write: written at once, read without a wait."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def write_at_once(path: Path, data: bytes, mode: int) -> None:
    """Replace `path` by `data`: a reader sees the old or the new content.

    Raises:
        OSError: the folder cannot be written.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    # Whatever another user puts in its place is not written through.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(beside, flags, mode), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
    beside.replace(path)


def read_bytes(path: Path, most: int, owner: int | None = None) -> bytes:
    """The first `most` bytes of a regular file; where `owner` is given, of that user's alone.

    It follows no link and waits at no pipe.

    Raises:
        OSError: it cannot be opened or read.
        ValueError: it is no file, or another user's.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a file")
        if owner is not None and status.st_uid != owner:
            raise ValueError("another user's file")
        return os.read(handle, most)
    finally:
        os.close(handle)
