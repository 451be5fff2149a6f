"""How many segments travel in a request, and which one makes every request fail."""

from __future__ import annotations

from enum import Enum

from .queue import SegmentQueue

BATCH = 64
"""Most segments in a request."""
TRIES = 3
"""Requests with the oldest segment alone that must fail before the one behind it is tried."""


class _Stage(Enum):
    NORMAL = "the oldest segments are sent"
    NEXT = "the second oldest is sent alone, to see whether only the oldest is refused"
    AGAIN = "it was accepted: the oldest is sent alone once more"


class Batches:
    """Halves requests that the collector refuses as a whole, until one segment is left.

    A collector that fails on that segment and takes the next one fails on that segment only.
    """

    def __init__(self) -> None:
        self._size = BATCH
        self._failures = 0
        self._refused = 0
        """Segments in the newest request that was refused."""
        self._stage = _Stage.NORMAL

    def select(self, spool: SegmentQueue) -> list[tuple[int, bytes]]:
        """The segments of the next request as (sequence, bytes); none if the spool is empty."""
        if self._stage is _Stage.NEXT:
            behind = spool.oldest(2)[1:]
            if behind:
                return behind
            self._restart()
        return spool.oldest(1 if self._stage is _Stage.AGAIN else self._size)

    def succeeded(self) -> None:
        """The collector took the request.

        Where it refused the oldest segment alone before, it refused whatever came, and does not
        any more: all is sent at once again. Else one of those left out may be what it refuses.
        """
        if self._stage is _Stage.NEXT:
            self._stage = _Stage.AGAIN
            return
        was_away = self._refused == 1
        self._size = BATCH if was_away else min(2 * self._size, BATCH)
        self._refused = 0
        self._restart()

    def failed(self, count: int) -> bool:
        """The collector refused a request of `count` segments; returns whether only they are bad.

        64 segments are refused, then 32, ..., then the oldest alone three times. The second oldest
        is taken, the oldest refused again: True.
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
