"""A job in live state: its evaluated state under its own lock, and its waiting segments."""

from __future__ import annotations

import itertools
import threading

from stepwatch.collector.state.holding.log_cursor import LogCursor
from stepwatch.collector.state.holding.unread import Unread
from stepwatch.collector.state.job import LiveJob

FOLD_BYTES = 16 << 20
"""Bytes of decoded segments folded in together: a small payload may hold many rows."""

_versions = itertools.count(1)


class HeldJob:
    """One job: `live` is read and changed under `lock`, which is never held while the log is read.

    `cursor` needs no lock. `version` rises with every change, and when the job is reloaded. `cells`
    is the cell count after the newest fold. `epoch` is the lease epoch, 0 without a lease. `source`
    is the first sender, empty while unknown. `is_proven` is whether the job is established.
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
        """Fold in the gapless waiting run; return whether any record is known. `lock` is held."""
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
        """Note that answers about the job may have changed."""
        self.version = next(_versions)
