"""The file with a process's last lines: its path, and how it is written and read.

    <user's ring directory>/.stderr/<pid namespace>-<pid>-<start>    mode 0600, JSON

A ring names the same three numbers, so its reader finds the lines. Readers trust only the file's
owner, not its content.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.durable import replace
from stepwatch.signals.places.directories import own_directory
from stepwatch.signals.places.small_files import read_bytes
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.processes import pid_namespace, start_ticks

from .lines import KEPT_CHARACTERS, KEPT_LINES

FOLDER = ".stderr"
OLD_SECONDS = 3600.0
"""Age at which a file is removed once its process has ended."""
MOST_FILES = 256
"""Most files for one user; the oldest are removed: at most 4 MB, usually 0.1 MB."""
_MOST_BYTES = 1 << 17


class Writer(NamedTuple):
    """The process that wrote the lines: pid, start in clock ticks, and pid namespace."""

    namespace: int
    pid: int
    start: int

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.namespace}-{self.pid}-{self.start}"


class SavedLines(NamedTuple):
    """Last lines, oldest first; `final` once no process has the stderr open any more."""

    lines: tuple[str, ...]
    final: bool


def this_process() -> Writer:
    """Return the calling process."""
    pid = os.getpid()
    return Writer(pid_namespace(), pid, start_ticks(pid))


def make_folder(root: Path) -> Path:
    """Create the folder for this user's files below ring directory `root`; remove old files.

    Raises:
        OSError: it cannot be created.
        RingError: the user's ring directory cannot be created.
    """
    folder = own_directory(root) / FOLDER
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _sweep(folder)
    return folder


def write(path: Path, record: SavedLines) -> None:
    """Write the file at once.

    Raises:
        OSError: the folder is full or removed.
    """
    replace(path, json.dumps(record._asdict()).encode(), mode=0o600)


def read(path: Path, owner: int | None = None) -> SavedLines:
    """Read the file, only from user id `owner` if it is set.

    Raises:
        FileNotFoundError: there is none: that process's lines are not kept.
        OSError: it cannot be read.
        ValueError: it has another format.
    """
    document = json.loads(read_bytes(path, _MOST_BYTES, owner))
    if not isinstance(document, dict) or not isinstance(document.get("lines"), list):
        raise ValueError("no kept lines")
    lines = (_shown(line) for line in document["lines"][-KEPT_LINES:])
    return SavedLines(tuple(lines), document.get("final") is True)


def _shown(line: object) -> str:
    """Return a line that is safe to show on a terminal, for a file by any writer."""
    return plain_line(str(line))[:KEPT_CHARACTERS]


def _sweep(folder: Path) -> None:
    now = time.time()
    ages: list[tuple[float, Path]] = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process sweeps, too
            ages.append((now - path.stat().st_mtime, path))
    ages.sort()
    for place, (age, path) in enumerate(ages):
        if place >= MOST_FILES or (age > OLD_SECONDS and not _lives(path.name)):
            path.unlink(missing_ok=True)


def _lives(name: str) -> bool:
    """Return whether a file's process may live: one in another pid namespace always may."""
    namespace, _, process = name.lstrip(".").partition("-")  # an unfinished file is hidden
    pid, _, start = process.partition("-")
    if namespace != str(pid_namespace()):
        return True
    return pid.isdigit() and str(start_ticks(int(pid))) == start
