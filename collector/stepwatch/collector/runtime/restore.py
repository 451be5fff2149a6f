"""Jobs come back from the store: at start-up, and one at a time while the service runs."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from dataclasses import dataclass

from stepwatch.collector.runtime.evaluation import Evaluator
from stepwatch.collector.runtime.snapshots import Snapshotter
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import (
    CONTAINED,
    RESTORING,
    LiveState,
    Withheld,
)
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store, StoredPayload, StoredSegment
from stepwatch.collector.store.undecoded import UndecodedSegment
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.errors import SegmentError

logger = logging.getLogger(__name__)

PAGE_SEGMENTS = 1024
"""Segments read at once; between two pages others may use the store."""
PAGE_BYTES = 16 << 20
"""About the bytes of their payloads."""
FOLD_BYTES = 16 << 20
"""Decoded segments that wait to be folded in together: a small payload may hold many rows."""
BUDGET_SECONDS = 0.5
"""Time a restore may take of one round of evaluations: the other jobs wait so long for theirs."""


@dataclass
class _Progress:
    """How far a job was read back: what it knows, and the last segment applied."""

    job: LiveJob
    after: int


class Restorer:
    """Reads back jobs that are withheld as `RESTORING`, in the order they were: their newest
    snapshot, and what their logs hold behind it.

    What arrives meanwhile is only stored: the last page is read under `lock`, so every segment is
    applied once, in the order of the store.
    """

    def __init__(
        self,
        store: Store,
        state: LiveState,
        evaluator: Evaluator,
        snapshotter: Snapshotter,
        *,
        clock: Clock,
        lock: threading.RLock,
    ) -> None:
        self.unreadable = 0
        """Stored segments that could not be decoded and were left out; they stay in the store."""
        self._store = store
        self._state = state
        self._evaluator = evaluator
        self._snapshotter = snapshotter
        self._clock = clock
        self._lock = lock
        self._progress: _Progress | None = None

    def request(self, name: str) -> None:
        """Withhold a job until its history is applied; `lock` is held."""
        now = self._clock.wall_ns() / NANOSECONDS
        reason = "its history is being read from the store"
        self._state.withhold(name, Withheld(RESTORING, reason, now))

    def advance(self, seconds: float) -> None:
        """Read on for so long, at least one page.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer; nothing was applied twice.
        """
        deadline = time.monotonic() + seconds
        while (progress := self._current()) is not None:
            try:
                self._read_page(progress)
            except CONTAINED as error:
                with self._lock:
                    self._state.quarantine(progress.job.name, error, self._now())
            if time.monotonic() >= deadline:
                return

    def _current(self) -> _Progress | None:
        with self._lock:
            waiting = (n for n, why in self._state.withheld.items() if why.state == RESTORING)
            name = next(waiting, None)
        if name is None:
            self._progress = None
        elif self._progress is None or self._progress.job.name != name:
            self._progress = _Progress(*self._snapshotter.load(name))
        return self._progress

    def _read_page(self, progress: _Progress) -> None:
        page = self._page(progress)
        self._apply(progress, page)
        if _is_full(page):
            return
        with self._lock:
            while page := self._page(progress):
                self._apply(progress, page)
            self._publish(progress.job)

    def _page(self, progress: _Progress) -> list[StoredPayload]:
        found = self._store.segments(progress.job.name, after=progress.after, limit=PAGE_SEGMENTS)
        page: list[StoredPayload] = []
        with closing(found):
            for stored in found:
                page.append(stored)
                if _is_full(page):
                    break
        return page

    def _apply(self, progress: _Progress, page: list[StoredPayload]) -> None:
        now = self._clock.monotonic_ns() / NANOSECONDS
        for stored in page:
            progress.after = stored.position
            try:
                segment = stored.segment()
            except SegmentError as error:
                self.unreadable += stored.count
                logger.warning(
                    "stored segment %d of %s is unreadable: %s",
                    *(stored.position, progress.job.name, error),
                )
                continue
            progress.job.append(segment, Received(stored.received_ns / NANOSECONDS, now))
            if progress.job.pending_bytes > FOLD_BYTES:
                progress.job.fold()
        progress.job.fold()

    def _publish(self, job: LiveJob) -> None:
        self._progress = None
        if not job.attempts:
            self._state.release(job.name)
            return
        self._evaluator.restore(job)
        self._state.admit(job)

    def _now(self) -> float:
        return self._clock.wall_ns() / NANOSECONDS


def _is_full(page: list[StoredPayload]) -> bool:
    size = sum(stored.size for stored in page)
    return len(page) >= PAGE_SEGMENTS or size >= PAGE_BYTES


def decode_kept(store: Store) -> int:
    """Store what an earlier version could not decode and this one can; returns how many.

    They come after what their jobs sent since. One that is damaged stays where it is.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the store does not answer.
    """
    after, count = 0, 0
    while page := store.undecoded.of_formats(wire.READABLE_FORMATS, after=after):
        after = page[-1].id
        done = [kept.id for kept in page if _store_decoded(store, kept)]
        store.undecoded.drop(done)
        count += len(done)
    return count


def _store_decoded(store: Store, kept: UndecodedSegment) -> bool:
    try:
        segment = wire.decode(kept.payload)
    except SegmentError as error:
        logger.warning("kept segment %d is unreadable: %s", kept.id, error)
        return False
    (added,) = store.add_segments([StoredSegment(segment, kept.payload)], kept.received_ns)
    return not added.refusal
