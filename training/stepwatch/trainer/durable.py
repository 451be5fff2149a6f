"""Durable files (write, sync, rename) and digests of files and JSON values."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

CHUNK_BYTES = 1 << 20


def file_digest(path: Path, *, from_storage: bool = False) -> str:
    """SHA-256 of a file as hex.

    Args:
        path: of the file.
        from_storage: drop the kernel's cached pages first, so that the bytes come from the storage.
    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        if from_storage:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


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


def json_bytes(value: Any) -> bytes:
    """Encode as indented JSON with sorted keys; equal values give equal bytes."""
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def content_digest(value: Any) -> str:
    """SHA-256, as hex, of a JSON value's canonical form."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
