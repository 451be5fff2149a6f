"""Takes over what an earlier agent left in a spool, of whatever version it was."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError, UnsupportedFormatError
from stepwatch.signals.records import Kind

from .files import HELD, WAITING, Spooled, quarantine, remove_unfinished, sequence_of

logger = logging.getLogger(__name__)


@dataclass
class Adopted:
    """What was found: segments by sequence, and how many files are damaged."""

    waiting: dict[int, Spooled] = field(default_factory=dict)
    held: dict[int, Spooled] = field(default_factory=dict)
    damaged: int = 0


def adopt(folder: Path) -> Adopted:
    """Sort the files of a spool; one damaged file must not hold up the others.

    Raises:
        OSError: the folder cannot be read or written.
    """
    remove_unfinished(folder)
    found = Adopted()
    for path in sorted([*folder.glob(f"*{WAITING}"), *folder.glob(f"*{HELD}")]):
        sequence = sequence_of(path)
        if sequence is None:
            quarantine(path, "its name is no sequence number")
            found.damaged += 1
            continue
        _sort(path, sequence, found)
    return found


def _sort(path: Path, sequence: int, found: Adopted) -> None:
    try:
        data = path.read_bytes()
        cursors = wire.decode(data).tables.get(Kind.CURSOR)
    except UnsupportedFormatError as error:
        if not found.held:
            logger.warning("%s: %s; kept for a collector that reads it", path, error)
        kept = _moved(path, HELD)
        found.held[sequence] = Spooled(sequence, kept, len(data), error.format)
    except (OSError, SegmentError) as error:
        quarantine(path, str(error))
        found.damaged += 1
    else:
        # What was held before the restart is tried again: the collector may be another by now.
        waiting, number = _moved(path, WAITING), wire.format_of(data)
        found.waiting[sequence] = Spooled(sequence, waiting, len(data), number, cursors)


def _moved(path: Path, suffix: str) -> Path:
    moved = path.with_suffix(suffix)
    os.replace(path, moved)
    return moved
