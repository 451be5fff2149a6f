"""The file that holds a process's last lines: where it lies, and how it is written and read.

    <user's ring directory>/.stderr/<pid namespace>-<pid>-<start>    mode 0600, JSON

A ring names the same three numbers, so whoever reads it finds the lines. Readers trust nothing in
it but its owner.
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
"""A file that was not written for so long is removed once its process has ended."""
MOST_FILES = 256
"""Of more files of one user the oldest are removed: 4 MB at the most, as a rule 0.1 MB."""
_MOST_BYTES = 1 << 17


class Writer(NamedTuple):
    """The process whose lines they are: its pid, when it began in clock ticks, and where."""

    namespace: int
    pid: int
    start: int

    @property
    def name(self) -> str:
        """Name of its file."""
        return f"{self.namespace}-{self.pid}-{self.start}"


class Kept(NamedTuple):
    """Last lines, oldest first; `final` once nobody has the process's stderr open any more."""

    lines: tuple[str, ...]
    final: bool


def this_process() -> Writer:
    """The process that calls this."""
    pid = os.getpid()
    return Writer(pid_namespace(), pid, start_ticks(pid))


def make_folder(root: Path) -> Path:
    """The folder for files of this user below ring directory `root`, with old ones removed.

    Raises:
        OSError: it cannot be made.
        RingError: the user's ring directory cannot be made.
    """
    folder = own_directory(root) / FOLDER
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _sweep(folder)
    return folder


def write(path: Path, record: Kept) -> None:
    """Write the file at once.

    Raises:
        OSError: the folder is full or gone.
    """
    replace(path, json.dumps(record._asdict()).encode(), mode=0o600)


def read(path: Path, owner: int | None = None) -> Kept:
    """Read the file, of user id `owner` alone where one is given.

    Raises:
        FileNotFoundError: there is none: nobody keeps the lines of that process.
        OSError: it cannot be read.
        ValueError: it is none of ours.
    """
    document = json.loads(read_bytes(path, _MOST_BYTES, owner))
    if not isinstance(document, dict) or not isinstance(document.get("lines"), list):
        raise ValueError("no kept lines")
    lines = (_shown(line) for line in document["lines"][-KEPT_LINES:])
    return Kept(tuple(lines), document.get("final") is True)


def _shown(line: object) -> str:
    """A line as far as it may be shown on a terminal, whoever wrote the file."""
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
    """Whether the process behind a file may live: one of another pid namespace always may."""
    namespace, _, process = name.lstrip(".").partition("-")  # one that is half written is hidden
    pid, _, start = process.partition("-")
    if namespace != str(pid_namespace()):
        return True
    return pid.isdigit() and str(start_ticks(int(pid))) == start
