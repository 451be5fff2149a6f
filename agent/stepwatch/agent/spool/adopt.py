"""Takes over an earlier agent's spool, in any version."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.survival import SHORTAGES
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError, UnsupportedFormatError
from stepwatch.signals.records import Kind

from .files import (
    HELD,
    WAITING,
    Spooled,
    quarantine,
    read_segment,
    remove_unfinished,
    sequence_of,
)

logger = logging.getLogger(__name__)


@dataclass
class Adopted:
    """Adopted segments by sequence, the number of damaged files, and their attempts.

    Files that cannot be read now count as held.
    """

    waiting: dict[int, Spooled] = field(default_factory=dict)
    held_segments: dict[int, Spooled] = field(default_factory=dict)
    damaged: int = 0
    lost: list[AttemptKey] = field(default_factory=list)


def adopt(folder: Path) -> Adopted:
    """Sort a spool's files; one damaged file must not block the others.

    Raises:
        OSError: the folder cannot be read or written.
    """
    remove_unfinished(folder)
    adopted = Adopted()
    for path in sorted([*folder.glob(f"*{WAITING}"), *folder.glob(f"*{HELD}")]):
        sequence = sequence_of(path)
        if sequence is None:
            _set_aside(path, "its name is not a sequence number", adopted)
            continue
        _sort(path, sequence, adopted)
    # A damaged header may name a job that never existed: it counts only if other segments name it.
    attempts = {spooled.attempt for spooled in adopted.waiting.values()}
    adopted.lost = [key for key in adopted.lost if key in attempts]
    return adopted


def _sort(path: Path, sequence: int, adopted: Adopted) -> None:
    try:
        data = read_segment(path)
    except SegmentError as error:
        _set_aside(path, str(error), adopted)
        return
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        logger.warning("%s waits, it cannot be read: %s", path, error)
        adopted.held_segments[sequence] = Spooled(
            sequence, path, _size(path), wire.WRITTEN_FORMAT, unreadable=True
        )
        return
    try:
        segment = wire.decode(data)
        key, cursors = segment.key, segment.tables.get(Kind.CURSOR)
    except UnsupportedFormatError as error:
        if not adopted.held_segments:
            logger.warning("%s: %s; kept for a collector that reads it", path, error)
        held_path = _moved(path, HELD)
        adopted.held_segments[sequence] = Spooled(sequence, held_path, len(data), error.format)
    except SegmentError as error:
        _set_aside(path, str(error), adopted)
        _name(data, adopted)
    else:
        # Segments held before the restart are tried again: the collector may have changed.
        waiting, number = _moved(path, WAITING), wire.format_of(data)
        attempt = AttemptKey(key.job, key.attempt)
        adopted.waiting[sequence] = Spooled(
            sequence, waiting, len(data), number, cursors, attempt=attempt
        )


def _set_aside(path: Path, reason: str, adopted: Adopted) -> None:
    quarantine(path, reason)
    adopted.damaged += 1


def _name(data: bytes, adopted: Adopted) -> None:
    """Record a damaged segment's attempt, if its header is readable."""
    try:
        key = wire.peek_key(data)
    except SegmentError:
        return
    adopted.lost.append(AttemptKey(key.job, key.attempt))


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _moved(path: Path, suffix: str) -> Path:
    moved = path.with_suffix(suffix)
    os.replace(path, moved)
    return moved
