"""Small files that hold a secret or a certificate, and whether they changed."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

logger = logging.getLogger(__name__)

MOST_BYTES = 1 << 20
"""Limit for a token file: 10,000 nodes with a token each are below it."""

Stamp = tuple[int, int, int, int] | None
"""Differs after a file was replaced or written; None if the file cannot be inspected."""


def stamp_of(path: Path) -> Stamp:
    """Return device, inode, size and last change time of the file behind `path`."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_small(path: Path) -> str:
    """Return the text of a regular file with at most `MOST_BYTES`.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger.
        UnicodeDecodeError: it is not text.
    """
    # Opening a pipe without a writer would block.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it has more than {MOST_BYTES} bytes")
    return data.decode()


def warn_of_readers(path: Path) -> None:
    """Warn in one line that every user of this machine can read or change a secret."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        logger.warning("%s has mode %04o: other users see this secret; chmod 600 %s", path, mode,
                       path)  # fmt: skip
