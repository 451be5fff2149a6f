"""Segments that the collector refused, kept for inspection within a bound of their own."""

from __future__ import annotations

import os
from pathlib import Path

from .files import REFUSED

MOST_FILES = 64
MOST_BYTES = 16 << 20


class Refused:
    """The newest refused segments in `folder`: at most `MOST_FILES`, and `limit_bytes` together."""

    def __init__(self, folder: Path, limit_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes

    def keep(self, segment: Path) -> None:
        """Move a segment's file aside; the oldest ones beyond the bound are deleted.

        Raises:
            OSError: the folder cannot be written.
        """
        if segment.exists():
            os.replace(segment, segment.with_suffix(REFUSED))
        self._delete_oldest()

    def _delete_oldest(self) -> None:
        left = self._limit
        newest_first = sorted(self._folder.glob(f"*{REFUSED}"), reverse=True)
        for number, path in enumerate(newest_first):
            left -= path.stat().st_size
            if number >= MOST_FILES or left < 0:
                path.unlink()
