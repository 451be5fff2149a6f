"""Black boxes for ended ranks: bounded ring copies in the spool."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.blackbox import RingReader, copy_path
from stepwatch.signals.blackbox.copies import is_copy
from stepwatch.signals.durable import replace

FOLDER = "blackbox"
"""Below the spool's folder."""
MOST_BYTES = 64 << 20
MOST_COPIES = 2_048
"""Maximum number of copies on a node: 256 jobs with eight ranks."""
MOST_AGE_SECONDS = 30 * 86_400.0


class _Copy(NamedTuple):
    written_s: float
    size: int
    path: str


class RingCopies:
    """Copies below `folder`; the oldest are removed beyond the count, size or age limit."""

    def __init__(
        self, folder: Path, most_bytes: int = MOST_BYTES, most_copies: int = MOST_COPIES
    ) -> None:
        self.folder = folder
        self._most_bytes, self._most_copies = most_bytes, most_copies
        self._copies = deque(sorted(_existing(folder)))
        self.size = sum(copy.size for copy in self._copies)
        """Total size in bytes."""

    def __len__(self) -> int:
        return len(self._copies)

    def keep(self, reader: RingReader, job: str) -> None:
        """Copy a ring from `job`; this replaces the same rank's earlier copy.

        Raises:
            OSError: the disk is full or gone; there is no copy.
        """
        identity = reader.identity
        path = copy_path(self.folder, job, identity.attempt, identity.rank)
        data = reader.copy()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace(path, data, mode=0o600)
        for replaced in [copy for copy in self._copies if copy.path == str(path)]:
            self._copies.remove(replaced)
            self.size -= replaced.size
        self._copies.append(_Copy(time.time(), len(data), str(path)))
        self.size += len(data)
        self.make_room()

    def make_room(self) -> None:
        """Remove the oldest copies beyond the bounds.

        Raises:
            OSError: a copy cannot be removed.
        """
        while self._copies and self._is_too_much(self._copies[0]):
            oldest = Path(self._copies[0].path)
            oldest.unlink(missing_ok=True)
            self.size -= self._copies.popleft().size
            with contextlib.suppress(OSError):  # the folder has other files
                oldest.parent.rmdir()
                oldest.parent.parent.rmdir()

    def _is_too_much(self, oldest: _Copy) -> bool:
        old = time.time() - oldest.written_s > MOST_AGE_SECONDS
        return old or self.size > self._most_bytes or len(self) > self._most_copies


def _existing(folder: Path) -> list[_Copy]:
    """Return an earlier agent's copies, and delete incomplete ones."""
    copies = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):
                if is_copy(name):
                    status = os.stat(path)
                    copies.append(_Copy(status.st_mtime, status.st_size, path))
                elif not is_copy(name):  # an incomplete copy
                    os.unlink(path)
    return copies
