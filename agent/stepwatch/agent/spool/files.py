"""Files of a spool: their names, and what becomes of those that no agent can use."""

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
"""Suffixes, after the sequence number: to be sent, kept until a collector can read it, refused by
the collector, and unreadable for good."""
SEQUENCE_DIGITS = 16
"""Digits of a sequence number in a file's name. One with more would lead to keys that no segment
can carry."""

MOST_FILES = 64
MOST_BYTES = 16 << 20
"""Most files, and most bytes together, that are kept for inspection of each kind."""


class Spooled(NamedTuple):
    """One segment file.

    `cursors` are its CURSOR rows, `format` the number of its wire format. `tried` are the formats
    that the collector announced when the segment was held, empty before the first answer. `attempt`
    is what it belongs to; None where it could not be read. `unreadable`: its file could not be read
    when that was tried last.
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
    """Sequence number in a file's name; None for a file that is not the spool's."""
    digits = path.stem.isascii() and path.stem.isdigit() and len(path.stem) <= SEQUENCE_DIGITS
    return int(path.stem) if digits else None


def sequences(folder: Path) -> Iterator[int]:
    """Sequence numbers that have a file, whatever became of the segment."""
    for path in folder.iterdir():
        sequence = sequence_of(path)
        if sequence is not None and path.suffix in (WAITING, HELD, REFUSED, DAMAGED):
            yield sequence


def remove_unfinished(folder: Path) -> None:
    """Delete what an agent that was killed while it wrote a file left beside it.

    Raises:
        OSError: the folder cannot be written.
    """
    for path in folder.glob(".[0-9]*.*"):
        path.unlink()


def read_segment(path: Path) -> bytes:
    """The bytes of a segment file.

    Raises:
        FileNotFoundError: it is gone.
        OSError: it cannot be read now, which says nothing of its content.
        SegmentError: there is a folder, a link or the like, which no agent wrote.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise SegmentError("it is no regular file")
    return path.read_bytes()


def quarantine(path: Path, reason: str) -> None:
    """Move a file aside that can no longer be read; the newest few of these are kept.

    Raises:
        OSError: the folder cannot be written.
    """
    logger.warning("%s is damaged (%s); it is quarantined and its facts are lost", path, reason)
    os.replace(path, path.with_suffix(DAMAGED))
    keep_newest(path.parent, DAMAGED, MOST_BYTES)


def keep_newest(folder: Path, suffix: str, limit_bytes: int) -> None:
    """Delete the oldest files with `suffix` beyond `MOST_FILES`, or `limit_bytes` together.

    Raises:
        OSError: the folder cannot be written.
    """
    remaining_bytes = limit_bytes
    files = [path for path in folder.glob(f"*{suffix}") if path.is_file()]
    for number, path in enumerate(sorted(files, reverse=True)):
        remaining_bytes -= path.stat().st_size
        if number >= MOST_FILES or remaining_bytes < 0:
            path.unlink()
