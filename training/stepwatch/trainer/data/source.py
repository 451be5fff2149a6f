"""The source text: the files that `--data` names, or the Python standard library's own source."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stepwatch.signals.errors import DataError

SNIFF_BYTES = 4096
_EXCLUDED = {"site-packages", "dist-packages", "__pycache__"}


@dataclass(frozen=True)
class SourceFile:
    """One file in the source text: path relative to the source's root, size in bytes, SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """A directory with a file pattern, or one file."""

    root: Path
    pattern: str


def chosen_source(data: str | None) -> Source:
    """Return the source that `--data` names, or the standard library for None.

    Raises:
        DataError: the path does not exist.
    """
    if data is None:
        return Source(Path(sysconfig.get_paths()["stdlib"]), "*.py")
    root = Path(data).expanduser().absolute()
    if not root.exists():
        raise DataError(f"no data at {root}: name a text file or a directory of text files")
    return Source(root, "*")


def _walk(source: Source) -> Iterator[Path]:
    if source.root.is_file():
        yield source.root
        return
    for directory, names, files in os.walk(source.root):
        names[:] = sorted(n for n in names if n not in _EXCLUDED and not n.startswith("."))
        for name in sorted(files):
            path = Path(directory, name)
            if path.match(source.pattern) and not name.startswith(".") and path.is_file():
                yield path


def _is_text(content: bytes) -> bool:
    return bool(content) and b"\0" not in content[:SNIFF_BYTES]


def read_source(source: Source, limit_bytes: int) -> Iterator[tuple[SourceFile, bytes]]:
    """Yield text files in sorted order, up to `limit_bytes` in total; the last file may be cut.

    The digest covers the yielded bytes. Empty files, and files with a NUL byte in their
    first 4 KiB, are skipped.

    Raises:
        DataError: a file cannot be read.
    """
    remaining = limit_bytes
    for path in _walk(source):
        if remaining <= 0:
            return
        try:
            with path.open("rb") as file:
                content = file.read(remaining)
        except OSError as error:
            raise DataError(
                f"cannot read {path}: {error.strerror}; fix it or leave it out"
            ) from error
        if _is_text(content):
            remaining -= len(content)
            name = str(path.relative_to(source.root)) if path != source.root else path.name
            yield SourceFile(name, len(content), hashlib.sha256(content).hexdigest()), content
