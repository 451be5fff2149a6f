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
        self._busy = False
        """Whether one of them stores it and others."""
        self._turn = threading.Condition()

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
        with self._turn:
            self._waiting.append(mine)
            self._turn.wait_for(lambda: mine.stored is not None or not self._busy)
            if mine.stored is not None:
                return mine.stored
            self._busy = True
        try:
            with self._writing:
                return self._store_with(mine)
        finally:
            with self._turn:
                self._busy = False
                self._waiting = [
                    each for each in self._waiting if each.stored is None and each is not mine
                ]
                self._turn.notify_all()

    def _store_with(self, first: _Request) -> tuple[list[Added], int]:
        """Store a request and whoever else waits, as long as there is room."""
        group, room = [first], MOST_SEGMENTS - len(first.segments)
        with self._turn:
            for each in self._waiting:
                if each is not first and len(each.segments) <= room:
                    group.append(each)
                    room -= len(each.segments)
        added, now = self._stored([segment for each in group for segment in each.segments])
        at = 0
        for each in group:
            end = at + len(each.segments)
            each.stored = (added[at:end], now)
            at = end
        return added[: len(first.segments)], now

    def _stored(self, segments: list[StoredSegment]) -> tuple[list[Added], int]:
        now = self._clock.wall_ns()
        return self._store.add_segments(segments, now), now
