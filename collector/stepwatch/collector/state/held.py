"""A job in live state: what is known of it under a lock of its own, and what waits for it."""

from __future__ import annotations

import threading

from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.log_cursor import LogCursor

FOLD_BYTES = 16 << 20
"""Decoded segments that are folded in together: a small payload may hold many rows."""


class HeldJob:
    """One job: `live` is read and changed under `lock`, which is never held while the log is read.

    `cursor` needs no lock. `version` rises with every change, `cells` is the number of them after
    the newest fold.
    """

    def __init__(self, live: LiveJob, applied: int = 0) -> None:
        self.name = live.name
        self.live = live
        self.cursor = LogCursor(applied)
        self.lock = threading.RLock()
        self.version = 0
        self.cells = live.cells

    def fold(self) -> bool:
        """Fold in the run that waits without a gap; whether any record is known. `lock` is held."""
        run = self.cursor.take()
        for segment, received in run:
            self.live.append(segment, received)
            if self.live.pending_bytes > FOLD_BYTES:
                self.live.fold()
        if run:
            self.live.fold()
            self.version += 1
            self.cells = self.live.cells
        return bool(self.live.attempts)
