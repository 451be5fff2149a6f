"""Spool files: their names, and the handling of unusable ones."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.keys import AttemptKey
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.wire import Rows

logger = logging.getLogger(__name__)

WAITING, HELD, REFUSED, DAMAGED = ".seg", ".held", ".refused", ".damaged"
"""Suffixes after the sequence number: to be sent, held until a collector can read it, refused by
the collector, and permanently unreadable."""
SEQUENCE_DIGITS = 16
"""Maximum digits in a file's sequence number; more would make keys that no segment can carry."""

MOST_FILES = 64
MOST_BYTES = 16 << 20
"""Maximum files and total bytes that are kept for inspection, per suffix."""


class Spooled(NamedTuple):
    """One segment file.

    `cursors` are its CURSOR rows, `format` is its wire format number. `tried` has the formats that
    the collector announced when the segment was held, empty before the first answer. `attempt` is
    None if it could not be read. `unreadable` means that the newest read failed.
    """

    sequence: int
    path: Path
    size: int
    format: int
    cursors: Rows | None = None
    tried: frozenset[int] = frozenset()
    attempt: AttemptKey | None = None
    unreadable: bool = False


def sequence_of(path: Path) -> int | None:
    """Return a file's sequence number; None if the file is not the spool's."""
    digits = path.stem.isascii() and path.stem.isdigit() and len(path.stem) <= SEQUENCE_DIGITS
    return int(path.stem) if digits else None


def sequences(folder: Path) -> Iterator[int]:
    """Yield all sequence numbers with a file, in any state."""
    for path in folder.iterdir():
        sequence = sequence_of(path)
        if sequence is not None and path.suffix in (WAITING, HELD, REFUSED, DAMAGED):
            yield sequence


def remove_unfinished(folder: Path) -> None:
    """Delete incomplete files from an agent that was killed while writing.

    Raises:
        OSError: the folder cannot be written.
    """
    for path in folder.glob(".[0-9]*.*"):
        path.unlink()


def read_segment(path: Path) -> bytes:
    """Return a segment file's bytes.

    Raises:
        FileNotFoundError: the file is gone.
        OSError: the file cannot be read now, independent from its content.
        SegmentError: it is a folder, a link or similar, which no agent wrote.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise SegmentError("it is not a regular file")
    return path.read_bytes()


def quarantine(path: Path, reason: str) -> None:
    """Move aside a file that can no longer be read; only the newest few are kept.

    Raises:
        OSError: the folder cannot be written.
    """
    logger.warning("%s is damaged (%s); it is quarantined and its facts are lost", path, reason)
    os.replace(path, path.with_suffix(DAMAGED))
    keep_newest(path.parent, DAMAGED, MOST_BYTES)


def keep_newest(folder: Path, suffix: str, limit_bytes: int) -> None:
    """Delete the oldest files with `suffix` beyond `MOST_FILES` or `limit_bytes` in total.

    Raises:
        OSError: the folder cannot be written.
    """
    remaining_bytes = limit_bytes
    files = [path for path in folder.glob(f"*{suffix}") if path.is_file()]
    for number, path in enumerate(sorted(files, reverse=True)):
        remaining_bytes -= path.stat().st_size
        if number >= MOST_FILES or remaining_bytes < 0:
            path.unlink()
