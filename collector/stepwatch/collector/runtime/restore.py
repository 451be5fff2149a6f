"""Restores jobs from the store and follows other collectors' writes, alongside requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing

from stepwatch.collector.job_states import RESTORING
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.runtime.snapshots import Snapshotter
from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.holding.unread import Unread
from stepwatch.collector.state.live import LiveState, Withheld
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store, StoredPayload, StoredSegment
from stepwatch.collector.store.bundles.objects import ObjectsUnreachable
from stepwatch.collector.store.nodes import report_of
from stepwatch.collector.store.undecoded import UndecodedSegment
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.errors import LeaseLostError, SegmentError
from stepwatch.signals.wire import Segment

logger = logging.getLogger(__name__)

PAGE_SEGMENTS = 2048
"""Number of segments per page; between two pages others may use the store."""
PAGE_BYTES = 16 << 20
"""Approximate payload bytes per page."""
ASIDE_SECONDS = 60.0
"""Delay before a job with unavailable payloads is tried again."""
BUDGET_SECONDS = 0.5
"""Time for restores per evaluation round: other jobs wait that long."""


class LogReader:
    """Reads the segments that a job's cursor lacks from the log, without a lock."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.unreadable = 0
        """Number of stored segments that failed to decode and were skipped.

        They stay in the store.
        """
        self._store = store
        self._clock = clock

    def read_page(self, job: HeldJob, end: int) -> bool:
        """Queue a page of the missing segments up to the position `end`.

        Return whether more are missing.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        cursor = job.cursor
        drops, missing = cursor.drops, cursor.missing(end)
        if not missing:
            return False
        page, is_full = self._page(job.name, missing)
        now = self._clock.monotonic_ns() / NANOSECONDS
        for stored in page:
            if not cursor.waits(stored.position):
                self._offer(job, stored, now)
        last = page[-1].position if is_full else missing[-1]
        cursor.covered(last, drops)
        return last < missing[-1]

    def _page(self, name: str, missing: range) -> tuple[list[StoredPayload], bool]:
        """Return the first missing segments, and whether more may follow."""
        limit = min(PAGE_SEGMENTS, len(missing))
        segments = self._store.segments(name, after_position=missing.start - 1, limit=limit)
        page: list[StoredPayload] = []
        size = 0
        with closing(segments):
            for stored in segments:
                page.append(stored)
                size += stored.size
                if size >= PAGE_BYTES:
                    return page, True
        return page, len(page) >= PAGE_SEGMENTS

    def _offer(self, job: HeldJob, stored: StoredPayload, now: float) -> None:
        segment: Segment | Unread
        try:
            segment = stored.segment()
        except SegmentError as error:
            self.unreadable += stored.count
            place = stored.position, job.name
            logger.warning("stored segment %d of %s is unreadable: %s", *place, error)
            segment = _unread(stored)
        received = Received(stored.received_ns / NANOSECONDS, now)
        job.cursor.offer(stored.position, segment, received)


class Restorer:
    """Restores jobs withheld as `RESTORING`, in order: newest snapshot, then the log after it.

    It also gives live jobs the segments that were not handed over to them. Segments that arrive for
    a withheld job are only stored; they are read from the log once the job is live.
    """

    def __init__(
        self,
        store: Store,
        state: LiveState,
        evaluator: Evaluator,
        snapshotter: Snapshotter,
        tenancy: Tenancy,
        *,
        clock: Clock,
    ) -> None:
        self._tenancy = tenancy
        self._reader = LogReader(store, clock)
        self._store = store
        self._state = state
        self._evaluator = evaluator
        self._snapshotter = snapshotter
        self._clock = clock
        self._progress: HeldJob | None = None
        self._aside: dict[str, float] = {}
        """Jobs postponed because of an unavailable object store, until a monotonic time."""

    @property
    def unreadable(self) -> int:
        """Number of stored segments that failed to decode and were skipped.

        They stay in the store.
        """
        return self._reader.unreadable

    @property
    def is_busy(self) -> bool:
        """Whether a restore is due now."""
        return next(self._waiting(), None) is not None

    def request(self, name: str) -> None:
        """Withhold a job until its history is applied."""
        reason = "its history is being read from the store"
        self._state.withhold(name, Withheld(RESTORING, reason, self._now()))

    def advance(self, seconds: float) -> bool:
        """Continue for this long, at least one page; return whether any job remains.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer; nothing was applied twice.
        """
        deadline = time.monotonic() + seconds
        while (progress := self._current()) is not None:
            try:
                with self._state.contained(progress.name, self._now()):
                    self._read_page(progress)
            except LeaseLostError:
                self._progress = None
                self._tenancy.lost(progress)
                self._state.release(progress.name)
            except ObjectsUnreachable as error:
                self._set_aside(progress.name, error)
            if time.monotonic() >= deadline:
                return self.is_busy
        return False

    def _set_aside(self, name: str, error: ObjectsUnreachable) -> None:
        """Postpone a job whose object store does not answer, and continue with others."""
        if name not in self._aside:
            logger.warning("%s is read back later: %s", name, error)
        self._progress = None
        self._aside[name] = time.monotonic() + ASIDE_SECONDS

    def _waiting(self) -> Iterator[str]:
        """Return the jobs that are due for a restore."""
        withheld, now = self._state.withheld_now(), time.monotonic()
        names = {name for name, why in withheld.items() if why.state == RESTORING}
        self._aside = {name: until_s for name, until_s in self._aside.items() if name in names}
        return (name for name in withheld if name in names and self._aside.get(name, 0.0) <= now)

    def follow(self, jobs: Sequence[HeldJob], seconds: float) -> None:
        """Apply to live jobs the segments that their logs have and they lack.

        One query covers all jobs. Segments are missing only if another collector stored them, too
        many waited, or a request did not hand its segments over. A log that became shorter is
        reread from the start.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer; nothing was applied twice.
        """
        deadline = time.monotonic() + seconds
        applied = {job.name: job.cursor.applied for job in jobs}
        ends = self._store.positions(applied) if applied else {}
        for job in jobs:
            end = ends.get(job.name, 0)
            if end < applied[job.name]:
                self.request(job.name)
                continue
            while job.cursor.missing(end):
                more = self._reader.read_page(job, end) and time.monotonic() < deadline
                with job.lock:
                    self._state.fold(job, self._now())
                if not more:
                    break

    def _current(self) -> HeldJob | None:
        name = next(self._waiting(), None)
        if name is None:
            self._progress = None
        elif self._progress is None or self._progress.name != name:
            epoch = self._tenancy.epoch(name)  # before any read
            self._progress = HeldJob(*self._snapshotter.load(name), epoch)
        return self._progress

    def _read_page(self, job: HeldJob) -> None:
        more = self._reader.read_page(job, self._store.position(job.name))
        if job.fold():
            self._evaluator.catch_up(job.live)
        if not more:
            self._publish(job)

    def _publish(self, job: HeldJob) -> None:
        self._progress = None
        if not job.live.attempts:
            self._state.release(job.name)
            self._tenancy.give_up([job.name])
            return
        self._evaluator.restore(job.live)
        self._state.admit(job)
        # Segments stored since the log was read were not handed over.
        self.follow([job], 0.0)

    def _now(self) -> float:
        return self._clock.wall_ns() / NANOSECONDS


def _unread(stored: StoredPayload) -> Unread:
    came = stored.first_received_ns / NANOSECONDS, stored.received_ns / NANOSECONDS
    return Unread(stored.first, stored.position, stored.count, *came)


def decode_kept(store: Store) -> int:
    """Store segments that an earlier version could not decode; return their number.

    They follow the segments that their jobs sent since. A damaged one stays undecoded.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the store does not answer.
    """
    last_id, count = 0, 0
    while page := store.undecoded.of_formats(wire.READABLE_FORMATS, after_id=last_id):
        last_id = page[-1].id
        stored_ids = [segment.id for segment in page if _store_decoded(store, segment)]
        store.undecoded.drop(stored_ids)
        count += len(stored_ids)
    return count


def _store_decoded(store: Store, undecoded: UndecodedSegment) -> bool:
    try:
        segment = wire.decode(undecoded.payload)
    except SegmentError as error:
        logger.warning("kept segment %d is unreadable: %s", undecoded.id, error)
        return False
    report = report_of(segment, undecoded.received_ns)
    if report is not None:
        store.nodes.add([report])
    if segment.key.of_node:
        return True
    (added,) = store.add_segments(
        [StoredSegment(segment, undecoded.payload)], undecoded.received_ns
    )
    return not added.refusal
