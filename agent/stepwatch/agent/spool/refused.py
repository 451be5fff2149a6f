"""Refused segments, kept for inspection within their own limit."""

from __future__ import annotations

import os
from pathlib import Path

from .files import MOST_BYTES, REFUSED, keep_newest


class Refused:
    """The newest refused segments in `folder`: at most `MOST_FILES`, and `limit_bytes` in total."""

    def __init__(self, folder: Path, limit_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes

    def keep(self, segment: Path) -> None:
        """Move a segment's file aside, and delete the oldest beyond the bound.

        Raises:
            OSError: the folder cannot be written.
        """
        if segment.exists():
            os.replace(segment, segment.with_suffix(REFUSED))
        keep_newest(self._folder, REFUSED, self._limit)
