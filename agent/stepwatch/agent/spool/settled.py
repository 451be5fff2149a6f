"""Segments that the collector is done with, until the ring cursors in them are saved."""

from __future__ import annotations

import errno
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from stepwatch.agent.keys import Cursors

from .cursors import CursorFile, superseded
from .files import Spooled

SAVE_SECONDS = 10.0
"""Seconds between two saves of cursors: each waits for the disk twice, as a segment does."""


class Settled:
    """Save cursors once in `SAVE_SECONDS`, then delete the files of settled segments.

    An agent that is killed between sends those segments again, and the collector knows them by
    their keys.

    Raises:
        ConfigurationError: the file of cursors is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._file = CursorFile(folder)
        self._segments: dict[int, Spooled] = {}
        self._saved_s: float | None = None

    @property
    def cursors(self) -> Cursors:
        """Where the collector's data ends, by ring."""
        return self._file.cursors

    @property
    def waiting_bytes(self) -> int:
        """Bytes in files that wait to be deleted."""
        return sum(spooled.size for spooled in self._segments.values())

    @property
    def is_due(self) -> bool:
        """Whether the cursors were not saved for `SAVE_SECONDS`."""
        return self._saved_s is None or time.monotonic() - self._saved_s >= SAVE_SECONDS

    def advance(self, segments: Iterable[Spooled]) -> None:
        """Advance the cursors to segments that stay on disk for other reasons."""
        self._file.advance(segments)

    def add(self, segments: Collection[Spooled]) -> None:
        """Advance the cursors to these segments; their files are deleted with the next save."""
        self._file.advance(segments)
        self._segments |= {spooled.sequence: spooled for spooled in segments}

    def forget(self, ring_id: int) -> None:
        """Forget a removed ring's cursor."""
        self._file.forget(ring_id)

    def save(self) -> None:
        """Save the cursors and delete settled files.

        Raises:
            OSError: the disk is full or gone; the files stay for the next save.
        """
        try:
            self._file.save()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._delete(superseded(self._segments.values()))
            self._file.save()
        self._saved_s = time.monotonic()
        self._delete(list(self._segments))

    def _delete(self, sequences: Iterable[int]) -> None:
        for sequence in sequences:
            self._segments.pop(sequence).path.unlink(missing_ok=True)
