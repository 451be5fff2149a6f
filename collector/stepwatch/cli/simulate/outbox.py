"""Segments in memory until the collector has them: where a real agent has its spool."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence

from stepwatch.agent.spool import BATCH_BYTES


class Outbox:
    """A queue that a relay sends from; one thread puts, another sends.

    Nothing is dropped: who puts more than `limit_bytes`, or `limit_segments`, is to wait while
    `is_full`. `sent_bytes` counts what was handed out, `lost` what the collector will never have.
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
    def held(self) -> int:
        """Segments that wait for a collector that can read them."""
        return len(self._held)

    @property
    def is_full(self) -> bool:
        """Whether there is as much as it may hold."""
        return self._bytes >= self._limit_bytes or len(self) >= self._limit_segments

    def put(self, segments: Sequence[bytes]) -> None:
        """Add segments behind those that wait."""
        with self._lock:
            for data in segments:
                self._waiting[self._next] = data
                self._next += 1
            self._bytes += sum(map(len, segments))
        self._filled.set()

    def wait(self, seconds: float) -> None:
        """Wait until something was put, for so long at most."""
        self._filled.wait(seconds)
        self._filled.clear()

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Up to `count` of the oldest segments as (number, bytes)."""
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
        """The collector is done with these; it will never take those in `refused`."""
        self.lost += len(refused)
        self._remove(numbers)

    def hold(self, numbers: Iterable[int], announced: Collection[int]) -> None:
        """Keep these, unsent, until they are released."""
        with self._lock:
            self._held.update((number, self._waiting.pop(number)) for number in numbers)

    def release(self, announced: Collection[int]) -> None:
        """Send held segments again, in their old places."""
        with self._lock:
            self._waiting = dict(sorted((self._waiting | self._held).items()))
            self._held = {}

    def discard_damaged(self, sequence: int, reason: str) -> None:
        """Take one that cannot be decoded out of the queue."""
        self.lost += 1
        self._remove([sequence])

    def _remove(self, numbers: Iterable[int]) -> None:
        with self._lock:
            for number in numbers:
                self._bytes -= len(self._waiting.pop(number, b""))
