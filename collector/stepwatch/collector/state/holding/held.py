"""A job in live state: what is known of it under a lock of its own, and what waits for it."""

from __future__ import annotations

import itertools
import threading

from stepwatch.collector.state.holding.log_cursor import LogCursor
from stepwatch.collector.state.holding.unread import Unread
from stepwatch.collector.state.job import LiveJob

FOLD_BYTES = 16 << 20
"""Decoded segments that are folded in together: a small payload may hold many rows."""

_versions = itertools.count(1)


class HeldJob:
    """One job: `live` is read and changed under `lock`, which is never held while the log is read.

    `cursor` needs no lock. `version` rises with every change, and where the job is read back;
    `cells` is the number of them after the newest fold, `epoch` that of the lease under which the
    job is known, 0 where there is none; `source` who sent the first of it, empty while unknown;
    `is_proven` whether it is established.
    """

    def __init__(self, live: LiveJob, applied: int = 0, epoch: int = 0, source: str = "") -> None:
        self.name = live.name
        self.source = source
        self.epoch = epoch
        self.live = live
        self.cursor = LogCursor(applied)
        self.lock = threading.RLock()
        self.version = next(_versions)
        self.cells = live.cells
        self.is_proven = live.is_proven

    def fold(self) -> bool:
        """Fold in the run that waits without a gap; whether any record is known. `lock` is held."""
        run = self.cursor.take()
        for segment, received in run:
            if isinstance(segment, Unread):
                self.live.miss(segment)
                continue
            self.live.append(segment, received)
            if self.live.pending_bytes > FOLD_BYTES:
                self.live.fold()
        if run:
            self.live.fold()
            self.changed()
            self.cells, self.is_proven = self.live.cells, self.live.is_proven
        return bool(self.live.attempts)

    def changed(self) -> None:
        """Note that an answer about the job may be another one now."""
        self.version = next(_versions)
