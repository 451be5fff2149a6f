"""Where a job stands in its log: what is applied, and what was handed over and waits behind it.

Requests store segments at the same time and hand them over in any order; positions say in which
they apply. Only the run without a gap behind `applied` is taken. What is missing in a gap is read
from the log: another collector stored it, or the request that did never came to hand it over.
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
    """Segments of one job by their positions; safe to call from several threads.

    `applied` is the position of the last one that was taken, `waiting_bytes` is about what waits,
    `drops` counts how often that was given back.
    """

    def __init__(self, applied: int = 0) -> None:
        self.applied = applied
        self.waiting_bytes = 0
        self.drops = 0
        self._waiting: dict[int, Arrived] = {}
        self._read_to = applied
        self._lock = threading.Lock()

    def offer(self, position: int, segment: Segment | Unread, received: Received) -> None:
        """Let a stored segment wait for its turn; one that had it already is left out.

        A part of the log that could not be read waits as one, at its last position.
        """
        self.offer_all([(position, segment)], received)

    def offer_all(self, stored: Iterable[tuple[int, Segment | Unread]], received: Received) -> None:
        """Let stored segments wait, each with its position, that were received together."""
        size = 0
        with self._lock:
            for position, segment in stored:
                if position > self.applied and position not in self._waiting:
                    self._waiting[position] = (segment, received)
                    size += segment_bytes(segment)
            self.waiting_bytes += size

    def covered(self, position: int, drops: int) -> None:
        """The log was read up to a position: what is missing before it is not there any more.

        `drops` is what it was before the reading; whoever read leaves out what waits, so nothing
        is covered if that was given back meanwhile.
        """
        with self._lock:
            if drops == self.drops:
                self._read_to = max(self._read_to, position)

    def take(self) -> list[Arrived]:
        """The run behind `applied` that has no gap, which counts as applied from now on.

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
        """From the first to the last position up to `end` that is neither applied nor waits.

        With 4 applied, 6 waiting and the log's end at 8 it is 5 to 8; `waits` says of 6 that it
        need not be read. Empty where nothing is missing.
        """
        with self._lock:
            first, last = self.applied + 1, end
            while first in self._waiting:
                first += 1
            while last >= first and last in self._waiting:
                last -= 1
            return range(first, last + 1)

    def waits(self, position: int) -> bool:
        """Whether a position is applied, or waits and need not be read."""
        with self._lock:
            return position <= self.applied or position in self._waiting

    def drop(self) -> None:
        """Give back what waits; it is read from the log when its turn comes.

        Also what was read from there and not taken yet: nothing is covered any more.
        """
        with self._lock:
            self._waiting.clear()
            self._read_to = self.applied
            self.waiting_bytes = 0
            self.drops += 1


def waiting_bytes(cursors: Iterable[LogCursor]) -> int:
    """About what waits in all of them."""
    return sum(cursor.waiting_bytes for cursor in cursors)
