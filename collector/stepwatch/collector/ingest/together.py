"""Group commit: concurrent requests store their segments in one transaction."""

from __future__ import annotations

import threading

from stepwatch.collector.store import Added, Store, StoredSegment
from stepwatch.collector.store.database import writer_lock
from stepwatch.signals.clock import Clock

MOST_SEGMENTS = 4096
"""Maximum segments per transaction, unless one request alone has more."""


class _Request:
    """Waiting segments; later their results, and the stored wall time in nanoseconds."""

    def __init__(self, segments: list[StoredSegment]) -> None:
        self.segments = segments
        self.stored: tuple[list[Added], int] | None = None


class WritesTogether:
    """Adds segments to a store, for all concurrent requests at once.

    SQLite allows one write at a time. A transaction costs as much processor time as forty segments,
    and waits for the disk; an agent sends one segment. PostgreSQL writes on several connections at
    once, so each request is stored alone and none waits.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._one_at_a_time = store.engine.dialect.name == "sqlite"
        self._writing = writer_lock(store.engine)
        self._waiting: list[_Request] = []
        self._busy = False
        """Whether a request is storing its own and other requests' segments."""
        self._turn = threading.Condition()

    @property
    def waiting(self) -> int:
        """Number of requests not yet stored."""
        return len(self._waiting)

    def add(self, segments: list[StoredSegment]) -> tuple[list[Added], int]:
        """Store segments; returns the results and the wall time that is stored with them.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; none was stored. Other
                waiting requests retry by themselves.
        """
        if not segments:
            return [], self._clock.wall_ns()
        if not self._one_at_a_time:
            return self._stored(segments)
        request = _Request(segments)
        with self._turn:
            self._waiting.append(request)
            self._turn.wait_for(lambda: request.stored is not None or not self._busy)
            if request.stored is not None:
                return request.stored
            self._busy = True
        try:
            with self._writing:
                return self._store_with(request)
        finally:
            with self._turn:
                self._busy = False
                self._waiting = [
                    waiting
                    for waiting in self._waiting
                    if waiting.stored is None and waiting is not request
                ]
                self._turn.notify_all()

    def _store_with(self, first: _Request) -> tuple[list[Added], int]:
        """Store a request together with other waiting requests, up to the limit."""
        group, room = [first], MOST_SEGMENTS - len(first.segments)
        with self._turn:
            for request in self._waiting:
                if request is not first and len(request.segments) <= room:
                    group.append(request)
                    room -= len(request.segments)
        added, now = self._stored([segment for request in group for segment in request.segments])
        start = 0
        for request in group:
            end = start + len(request.segments)
            request.stored = (added[start:end], now)
            start = end
        return added[: len(first.segments)], now

    def _stored(self, segments: list[StoredSegment]) -> tuple[list[Added], int]:
        now = self._clock.wall_ns()
        return self._store.add_segments(segments, now), now
