"""Chooses the request size, and finds a segment that makes every request fail."""

from __future__ import annotations

from enum import Enum

from .queue import SegmentQueue

BATCH = 64
"""Maximum number of segments per request."""
TRIES = 3
"""Failed requests with only the oldest segment before the next segment is tried."""


class _Stage(Enum):
    NORMAL = "the oldest segments are sent"
    NEXT = "the second oldest is sent alone, to see whether only the oldest is refused"
    AGAIN = "it was accepted: the oldest is sent alone again"


class Batches:
    """Halve refused requests until one segment is left.

    If the collector fails on that segment and accepts the next one, only that segment is bad.
    """

    def __init__(self) -> None:
        self._size = BATCH
        self._failures = 0
        self._refused = 0
        """Number of segments in the newest refused request."""
        self._stage = _Stage.NORMAL

    def select(self, spool: SegmentQueue) -> list[tuple[int, bytes]]:
        """Return the next request's segments as (sequence, bytes); none if the spool is empty."""
        if self._stage is _Stage.NEXT:
            behind = spool.oldest(2)[1:]
            if behind:
                return behind
            self._restart()
        return spool.oldest(1 if self._stage is _Stage.AGAIN else self._size)

    def succeeded(self) -> None:
        """Handle an accepted request.

        If the collector had refused even the oldest segment alone, it refused everything and has
        recovered: full batches are sent again. Otherwise a segment left out may be the bad one.
        """
        if self._stage is _Stage.NEXT:
            self._stage = _Stage.AGAIN
            return
        was_away = self._refused == 1
        self._size = BATCH if was_away else min(2 * self._size, BATCH)
        self._refused = 0
        self._restart()

    def failed(self, count: int) -> bool:
        """Handle a refused request with `count` segments; return whether only they are bad.

        64 segments are refused, then 32, ..., then the oldest alone three times. The second oldest
        is accepted, the oldest refused again: True.
        """
        self._refused = count
        if self._stage is not _Stage.NORMAL:
            only_this = self._stage is _Stage.AGAIN
            self._restart()
            return only_this
        self._size = max(1, count // 2)
        self._failures += count == 1
        if self._failures >= TRIES:
            self._stage = _Stage.NEXT
        return False

    def _restart(self) -> None:
        self._failures, self._stage = 0, _Stage.NORMAL
