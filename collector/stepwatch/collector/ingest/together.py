"""Requests that wait for each other store their segments in one transaction."""

from __future__ import annotations

import threading

from stepwatch.collector.store import Added, Store, StoredSegment
from stepwatch.collector.store.database import writer_lock
from stepwatch.signals.clock import Clock

MOST_SEGMENTS = 4096
"""Segments of one transaction, unless one request alone has more."""


class _Request:
    """Segments that wait; what became of each, and when (wall nanoseconds), once it is known."""

    def __init__(self, segments: list[StoredSegment]) -> None:
        self.segments = segments
        self.stored: tuple[list[Added], int] | None = None


class WritesTogether:
    """Adds segments to a store, those of all requests that wait at a time.

    SQLite lets one write at a time. To begin and end a transaction takes as much processor time as
    forty segments do, and the disk is waited for; an agent sends one segment. PostgreSQL writes for
    several connections at once: there nobody waits, and each request is stored alone.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._one_at_a_time = store.engine.dialect.name == "sqlite"
        self._writing = writer_lock(store.engine)
        self._waiting: list[_Request] = []
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Requests that are not stored yet."""
        return len(self._waiting)

    def add(self, segments: list[StoredSegment]) -> tuple[list[Added], int]:
        """Store segments; returns what became of each, and the wall time stored with them.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; none of them was stored. Others
                that waited try for themselves.
        """
        if not segments:
            return [], self._clock.wall_ns()
        if not self._one_at_a_time:
            return self._stored(segments)
        mine = _Request(segments)
        with self._lock:
            self._waiting.append(mine)
        try:
            with self._writing:
                if mine.stored is None:
                    self._store_all(self._group(mine))
        finally:
            with self._lock:
                self._waiting.remove(mine)
        assert mine.stored is not None
        return mine.stored

    def _group(self, first: _Request) -> list[_Request]:
        """Those that are stored with `first`: whoever waits, as long as there is room."""
        group, room = [first], MOST_SEGMENTS - len(first.segments)
        with self._lock:
            for each in self._waiting:
                if each is not first and each.stored is None and len(each.segments) <= room:
                    group.append(each)
                    room -= len(each.segments)
        return group

    def _store_all(self, group: list[_Request]) -> None:
        added, now = self._stored([segment for each in group for segment in each.segments])
        at = 0
        for each in group:
            end = at + len(each.segments)
            each.stored = (added[at:end], now)
            at = end

    def _stored(self, segments: list[StoredSegment]) -> tuple[list[Added], int]:
        now = self._clock.wall_ns()
        return self._store.add_segments(segments, now), now
