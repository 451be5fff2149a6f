"""Damages a checkpoint as failing storage does: one byte, and nothing else."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

_NAME_LENGTH, _EXTRA_LENGTH, _HEADER_BYTES = 26, 28, 30
"""Places in a local header of an archive, and its length without name and extra field."""


def change_byte(path: Path) -> Path:
    """Change a byte of the largest file with checksums; return that file.

    `path` is a file or a folder. All its files get an old time: whatever changed in the last minute
    may still be written, and is read again a minute later.

    Raises:
        ValueError: there is no such file.
    """
    files = [path] if path.is_file() else [item for item in path.rglob("*") if item.is_file()]
    archives = [file for file in files if zipfile.is_zipfile(file)]
    file = max(archives, key=lambda item: item.stat().st_size)
    place = _middle_of_largest_member(file)
    with file.open("r+b") as opened:
        opened.seek(place)
        byte = opened.read(1)[0]
        opened.seek(place)
        opened.write(bytes([byte ^ 1]))
    for item in (*files, path):
        os.utime(item, (0, 0))
    return file


def _middle_of_largest_member(file: Path) -> int:
    with zipfile.ZipFile(file) as archive, file.open("rb") as opened:
        member = max(archive.infolist(), key=lambda info: info.compress_size)
        opened.seek(member.header_offset)
        header = opened.read(_HEADER_BYTES)
    lengths = (
        int.from_bytes(header[place : place + 2], "little")
        for place in (_NAME_LENGTH, _EXTRA_LENGTH)
    )
    return member.header_offset + _HEADER_BYTES + sum(lengths) + member.compress_size // 2
