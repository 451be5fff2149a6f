"""A file server that a test slows down: a real FUSE mount with one file, `batches`.

Run as `python -m tests.e2e.slow_files MOUNT_POINT DELAY_FILE`. Reads and queries for free space
take the seconds that DELAY_FILE states, none without that file.
"""

from __future__ import annotations

import contextlib
import errno
import stat
import sys
import time
from pathlib import Path
from typing import Any

import mfusepy

FILE = "batches"
SIZE = 1 << 12


class SlowFiles(mfusepy.Operations):  # type: ignore[misc]
    """One file of zeros; listing and reading it take the seconds of `delay`."""

    use_ns = True

    def __init__(self, delay: Path) -> None:
        self._delay = delay

    def _wait(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            time.sleep(float(self._delay.read_text()))

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Attributes of the folder or its file."""
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path != f"/{FILE}":
            raise mfusepy.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_size": SIZE}

    def readdir(self, path: str, fh: int) -> list[str]:
        """Names in the folder."""
        return [".", "..", FILE]

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Zeros, after the delay; at once that there are no more."""
        if offset >= SIZE:
            return b""
        self._wait()
        return bytes(min(size, SIZE - offset))

    def statfs(self, path: str) -> dict[str, int]:
        """Half of the space is free, after the delay."""
        self._wait()
        sizes = {"f_bsize": 4096, "f_frsize": 4096}
        space = {"f_blocks": 1 << 20, "f_bfree": 1 << 19, "f_bavail": 1 << 19}
        return {**sizes, **space, "f_files": 1 << 10, "f_ffree": 1 << 9, "f_favail": 1 << 9}


def main(mount_point: str, delay: str) -> None:
    """Serve until the mount is removed."""
    mfusepy.FUSE(
        SlowFiles(Path(delay)),
        mount_point,
        foreground=True,
        direct_io=True,  # every read of a rank reaches the server: no page cache
        fsname="slow-files",
        subtype="test-files",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
