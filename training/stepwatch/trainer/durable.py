"""Durable files: written, synced, then renamed."""

from __future__ import annotations

import os
from pathlib import Path


def sync_file(path: Path) -> None:
    """Wait until the content of a file or directory is on its storage.

    Raises:
        OSError: it cannot be opened or synced.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, content: bytes) -> None:
    """Replace `path` atomically: after a crash it holds the old or the new content.

    Raises:
        OSError: the directory cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_file(path.parent)
