"""Segments in memory until the collector has them; a real agent has its spool for this."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence

from stepwatch.agent.spool import BATCH_BYTES


class Outbox:
    """A queue that a relay sends from; one thread puts, another sends.

    Nothing is dropped: a producer of more than `limit_bytes` or `limit_segments` must wait while
    `is_full`. `sent_bytes` counts bytes handed to the relay, `lost` segments that the collector
    will never receive.
    """

    def __init__(self, limit_bytes: int, limit_segments: int) -> None:
        self.sent_bytes = 0
        self.lost = 0
        self._limit_bytes, self._limit_segments = limit_bytes, limit_segments
        self._lock = threading.Lock()
        self._filled = threading.Event()
        self._waiting: dict[int, bytes] = {}
        self._held: dict[int, bytes] = {}
        self._bytes = 0
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def held_segments(self) -> int:
        """Segments held until a collector can read them."""
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached a limit."""
        return self._bytes >= self._limit_bytes or len(self) >= self._limit_segments

    def put(self, segments: Sequence[bytes]) -> None:
        """Append segments to the queue."""
        with self._lock:
            for data in segments:
                self._waiting[self._next] = data
                self._next += 1
            self._bytes += sum(map(len, segments))
        self._filled.set()

    def wait(self, seconds: float) -> None:
        """Wait until segments arrive, at most `seconds`."""
        self._filled.wait(seconds)
        self._filled.clear()

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Return up to `count` of the oldest segments as (number, bytes)."""
        batch: list[tuple[int, bytes]] = []
        size = 0
        with self._lock:
            for item in self._waiting.items():
                size += len(item[1])
                if len(batch) == count or (batch and size > BATCH_BYTES):
                    break
                batch.append(item)
        self.sent_bytes += sum(len(data) for _, data in batch)
        return batch

    def acknowledge(self, numbers: Collection[int], refused: Collection[int] = ()) -> None:
        """Remove segments that the collector has handled; it never accepts those in `refused`."""
        self.lost += len(refused)
        self._remove(numbers)

    def hold(self, numbers: Iterable[int], announced: Collection[int]) -> None:
        """Keep segments unsent until they are released."""
        with self._lock:
            self._held.update((number, self._waiting.pop(number)) for number in numbers)

    def release(self, announced: Collection[int]) -> None:
        """Put held segments at their old positions in the queue."""
        with self._lock:
            self._waiting = dict(sorted((self._waiting | self._held).items()))
            self._held = {}

    def discard_damaged(self, sequence: int, reason: str) -> None:
        """Remove a segment that cannot be decoded."""
        self.lost += 1
        self._remove([sequence])

    def _remove(self, numbers: Iterable[int]) -> None:
        with self._lock:
            for number in numbers:
                self._bytes -= len(self._waiting.pop(number, b""))
