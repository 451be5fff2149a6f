"""Small files in folders to which others may write: read without a wait, within a bound.

`durable.replace` writes them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_bytes(path: Path, most: int, owner: int | None = None) -> bytes:
    """Return a regular file's first `most` bytes; if `owner` is set, only that user's file.

    It follows no link and waits at no pipe.

    Raises:
        OSError: it cannot be opened or read.
        ValueError: it is not a file, or another user's.
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
