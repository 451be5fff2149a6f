"""A job's position in its log: applied segments, and segments that wait for a gap to close.

Requests store segments concurrently and hand them over in any order; positions give the order. Only
the gapless run after `applied` is taken. Missing segments are read from the log: another collector
stored them, or the storing request never handed them over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from stepwatch.collector.state.holding.unread import Unread
from stepwatch.collector.state.job import segment_bytes
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.wire import Segment

Arrived = tuple[Segment | Unread, Received]


class LogCursor:
    """Segments of one job by position; thread-safe.

    `applied` is the position of the last taken segment, `waiting_bytes` the approximate waiting
    bytes, `drops` the number of `drop` calls.
    """

    def __init__(self, applied: int = 0) -> None:
        self.applied = applied
        self.waiting_bytes = 0
        self.drops = 0
        self._waiting: dict[int, Arrived] = {}
        self._read_to = applied
        self._lock = threading.Lock()

    def offer(self, position: int, segment: Segment | Unread, received: Received) -> None:
        """Add a stored segment to the queue; an applied or waiting position is ignored.

        An unreadable part of the log waits as one entry, at its last position.
        """
        self.offer_all([(position, segment)], received)

    def offer_all(self, stored: Iterable[tuple[int, Segment | Unread]], received: Received) -> None:
        """Add stored segments with their positions, which were received together."""
        size = 0
        with self._lock:
            for position, segment in stored:
                if position > self.applied and position not in self._waiting:
                    self._waiting[position] = (segment, received)
                    size += segment_bytes(segment)
            self.waiting_bytes += size

    def covered(self, position: int, drops: int) -> None:
        """Record that the log was read up to a position: positions missing before it do not exist.

        `drops` is the counter before the read. The read skips waiting segments, so a `drop` call
        since then makes this call a no-op.
        """
        with self._lock:
            if drops == self.drops:
                self._read_to = max(self._read_to, position)

    def take(self) -> list[Arrived]:
        """Return the gapless run after `applied`, which counts as applied from now on.

        With 4 applied and 5, 6 and 8 waiting it is 5 and 6; 7 may be on its way.
        """
        run: list[Arrived] = []
        with self._lock:
            while self._waiting or self.applied < self._read_to:
                arrived = self._waiting.pop(self.applied + 1, None)
                if arrived is not None:
                    self.applied += 1
                    run.append(arrived)
                elif self.applied < self._read_to:
                    before_next = min(self._waiting, default=self._read_to + 1) - 1
                    self.applied = min(self._read_to, before_next)
                else:
                    break
            if self._waiting:
                self.waiting_bytes -= sum(segment_bytes(segment) for segment, _ in run)
            else:
                self.waiting_bytes = 0
        return run

    def missing(self, end: int) -> range:
        """Return the range of positions up to `end` with missing segments.

        With 4 applied, 6 waiting and the log's end at 8 it is 5 to 8; `waits` tells that 6 need not
        be read. Empty without missing segments.
        """
        with self._lock:
            first, last = self.applied + 1, end
            while first in self._waiting:
                first += 1
            while last >= first and last in self._waiting:
                last -= 1
            return range(first, last + 1)

    def waits(self, position: int) -> bool:
        """Return whether a position is applied, or waits and need not be read."""
        with self._lock:
            return position <= self.applied or position in self._waiting

    def drop(self) -> None:
        """Release the waiting segments; they are read from the log later.

        This includes segments read from the log and not yet taken: nothing is covered any more.
        """
        with self._lock:
            self._waiting.clear()
            self._read_to = self.applied
            self.waiting_bytes = 0
            self.drops += 1


def waiting_bytes(cursors: Iterable[LogCursor]) -> int:
    """Return the approximate waiting bytes of all cursors."""
    return sum(cursor.waiting_bytes for cursor in cursors)
