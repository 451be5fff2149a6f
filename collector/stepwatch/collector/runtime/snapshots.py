"""Saves and loads job states, so that a restart replays only recent segments."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from stepwatch.collector.heap import release_free_memory
from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import CONTAINED, LiveState
from stepwatch.collector.state.snapshot import (
    FORMAT,
    About,
    Document,
    packed,
    put_together,
    taken_apart,
    unpacked,
)
from stepwatch.collector.store import Store
from stepwatch.collector.store.snapshots import StoredSnapshot
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.errors import LeaseLostError, SnapshotError

logger = logging.getLogger(__name__)

EVERY_SECONDS = 60.0
"""Shortest interval between two snapshots, but for a job with very many segments."""
LONGEST_SECONDS = 300.0
"""Longest interval; jobs of a node or two reach it."""
SEGMENT_SECONDS = 0.001
"""Time to replay a segment of a small job; a large job's segments are replayed together."""
MOST_SEGMENTS = 16_384
"""Number of new segments that triggers an early snapshot.

Replaying them takes about two seconds, which a restart or another collector's takeover waits for.
"""
MOST_SHARE = 0.05
"""Maximum share of time for early snapshots."""
BUDGET_SECONDS = 0.5
"""Time for snapshots per evaluation round."""
LARGE_BYTES = 64 << 20
"""State size from which a snapshot returns its memory to the system; smaller copies are reused."""


SAVED, FAILED, UNREADABLE = "saved", "failed", "unreadable"
"""Snapshot outcomes: stored; not built or not stored; found but skipped."""


@dataclass
class _Kept:
    """One job's last snapshot: its position, time (monotonic seconds), duration and state size."""

    position: int = 0
    at_s: float = 0.0
    took_s: float = 0.0
    state_bytes: int = 0

    def is_due(self, now_s: float, position: int) -> bool:
        """Return whether a job now at `position` is due for a snapshot.

        That is when replaying its new segments takes as long as a snapshot, which for a job of
        eight ranks is a fifth of all evaluation time if it is saved each minute.
        """
        age, behind = now_s - self.at_s, position - self.position
        if age >= EVERY_SECONDS and behind * SEGMENT_SECONDS >= self.took_s:
            return True
        is_early = behind >= MOST_SEGMENTS and age >= self.took_s / MOST_SHARE
        return age >= LONGEST_SECONDS or is_early


class Snapshotter:
    """Saves each job every one to five minutes, earlier with many segments, longest waiting first.

    A job's lock is held while its state is serialized, not while it is compressed and stored.
    """

    def __init__(self, store: Store, state: LiveState, tenancy: Tenancy, *, clock: Clock) -> None:
        self.counts = dict.fromkeys((SAVED, FAILED, UNREADABLE), 0)
        self._store = store
        self._state = state
        self._tenancy = tenancy
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def advance(self, seconds: float) -> None:
        """Save due jobs for about this long."""
        deadline = time.monotonic() + seconds
        now = self._now()
        for name in self._kept_by_age(lambda job, entry: entry.is_due(now, job.cursor.applied)):
            self.save(name)
            if time.monotonic() >= deadline:
                return

    def save_all(self) -> None:
        """Save every changed job: the collector stops."""
        for name in self._kept_by_age(lambda job, entry: True):
            self.save(name)

    def load(self, name: str) -> tuple[LiveJob, int]:
        """Return a job from its newest readable snapshot, with the snapshot's log position.

        Without a snapshot, return an empty job with the position after which its log is complete:
        fragments of a pruned log would be mistaken for the whole history.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        whole_after = 0
        for stored in self._store.snapshots.newest_first(name):
            try:
                job = self._put_together(name, stored)
            except CONTAINED as error:
                # Damage under a valid checksum may raise anything; the log has all data.
                self.counts[UNREADABLE] += 1
                logger.warning("a snapshot of %s is left out: %s", name, error)
                whole_after = self._store.whole_after(name)
                continue
            if stored.position < whole_after:
                break
            self._kept[name] = self._due_at_once(stored.position)
            return job, stored.position
        whole_after = self._store.whole_after(name)
        if whole_after:
            logger.warning(
                "%s starts over after position %d: its older log was pruned and has no snapshot",
                *(name, whole_after),
            )
        self._kept[name] = self._due_at_once(0)
        return LiveJob(name), whole_after

    def _due_at_once(self, position: int) -> _Kept:
        """Make a restored job due at once.

        Otherwise a collector that is killed every minute would have more to replay each time.
        """
        return _Kept(position, self._now() - LONGEST_SECONDS)

    def forget(self, name: str) -> None:
        """Drop a job that is no longer live."""
        self._kept.pop(name, None)

    def _put_together(self, name: str, stored: StoredSnapshot) -> LiveJob:
        about, document = unpacked(stored.payload)
        if (about.job, about.position) != (name, stored.position):
            raise SnapshotError(f"it is of {about.job} at {about.position}")
        job = put_together(document, self._now() - about.monotonic_s)
        if not isinstance(job, LiveJob) or job.name != name:
            raise SnapshotError("it holds no job")
        return job

    def _kept_by_age(self, chosen: Callable[[HeldJob, _Kept], bool]) -> list[str]:
        """Return the live jobs that `chosen` accepts, oldest snapshot first."""
        saved_at = {}
        for job in self._state.jobs():
            entry = self._kept.setdefault(job.name, _Kept(at_s=self._now()))
            if chosen(job, entry):
                saved_at[job.name] = entry.at_s
        return sorted(saved_at, key=saved_at.__getitem__)

    def save(self, name: str) -> bool:
        """Save a job now; return whether its whole state is stored."""
        entry, now = self._kept.get(name), self._now()
        if entry is None:  # it was dropped after it became due
            return False
        entry.at_s = now
        job = self._state.get(name)
        if job is None or not self._tenancy.holds(job):
            return False
        entry.state_bytes = 0
        saved = self._save(job, entry, now)
        if entry.state_bytes >= LARGE_BYTES:  # the copies are gone
            release_free_memory()
        return saved

    def _save(self, job: HeldJob, entry: _Kept, now: float) -> bool:
        began, name = time.monotonic(), job.name
        try:
            position, document = self._taken_apart(job, entry.position)
            if document is not None:
                entry.state_bytes = sum(array.nbytes for array in document.arrays)
                data = packed(document, About(name, position, now))
                self._store.snapshots.save(
                    name,
                    StoredSnapshot(position, data),
                    format=FORMAT,
                    saved_ns=self._clock.wall_ns(),
                    lease=self._tenancy.lease(job),
                )
                entry.position, entry.took_s = position, time.monotonic() - began
                self.counts[SAVED] += 1
            return True
        except LeaseLostError:
            self._tenancy.lost(job)
        except (*CONTAINED, sa.exc.SQLAlchemyError) as error:
            self.counts[FAILED] += 1
            logger.error("cannot save the state of %s: %s", name, error)
        return False

    def _taken_apart(self, job: HeldJob, after_position: int) -> tuple[int, Document | None]:
        """Return a job's serialized state and position.

        None if it is not beyond `after_position`.
        """
        with job.lock:
            is_known = self._state.fold(job, self._clock.wall_ns() / NANOSECONDS)
            position = job.cursor.applied
            is_due = is_known and position > after_position and not job.live.waits
            document = taken_apart(job.live) if is_due else None
            return position, document

    def _now(self) -> float:
        return self._clock.monotonic_ns() / NANOSECONDS
