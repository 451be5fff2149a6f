"""Copies of rings whose ranks have ended: the ring's bytes, compressed, in their own file.

Slots that were never written are left out, and read as zeros.

    <folder>/<job>/<attempt>/<rank>.ring.z    zlib

A `RingReader` reads a copy like a ring.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from .layout import HEADER_SIZE, MAX_CAPACITY, SLOT_SIZE

COPY_SUFFIX = ".ring.z"
_MOST_BYTES = HEADER_SIZE + MAX_CAPACITY * SLOT_SIZE
_AT_ONCE = 1 << 20
_FAST = 1
"""zlib's level: most of a ring is zeros or numbers that differ little."""


def is_copy(name: str) -> bool:
    """Return whether a file name belongs to a copy of a ring."""
    return name.endswith(COPY_SUFFIX)


def copy_path(folder: Path, job: str, attempt: int, rank: int) -> Path:
    """Return the path for a ring's copy; a later ring at the same place replaces it."""
    return folder / job / str(attempt) / f"{rank}{COPY_SUFFIX}"


def compressed(file: int, size: int) -> bytes:
    """Return an open ring's first `size` bytes in the form of a copy.

    Raises:
        OSError: it cannot be read.
    """
    packer, parts = zlib.compressobj(_FAST), []
    for offset in range(0, size, _AT_ONCE):
        parts.append(packer.compress(os.pread(file, min(_AT_ONCE, size - offset), offset)))
    return b"".join([*parts, packer.flush()])


def open_copy(path: Path, flags: int) -> int:
    """Return a descriptor for the ring in a copy, in memory only; `flags` open the copy.

    Raises:
        OSError: the copy cannot be opened, or there is no memory.
        ValueError: it is none, or holds more than a ring may.
    """
    with open(os.open(path, flags), "rb") as file:
        data = file.read(_MOST_BYTES)
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(data, _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"it is damaged ({error})") from error
    if not unpacker.eof:
        raise ValueError("it is cut short, or holds more than a ring may")
    descriptor = os.memfd_create("ring", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
