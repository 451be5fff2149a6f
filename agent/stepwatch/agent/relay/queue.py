"""What a relay sends from: a spool on disk, or anything that behaves like it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol


class SegmentQueue(Protocol):
    """Segments that wait to be sent, by number, the oldest first; `Spool` says what each does."""

    def __len__(self) -> int: ...

    @property
    def held(self) -> int:
        """Segments that wait for a collector that can read them."""
        ...

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Up to `count` of the oldest segments as (number, bytes)."""
        ...

    def acknowledge(self, sequences: Collection[int], refused: Collection[int] = ...) -> None:
        """The collector is done with these; it will never take those in `refused`."""
        ...

    def hold(self, sequences: Iterable[int], announced: Collection[int]) -> None:
        """Keep these, unsent, until the collector reads more than `announced`."""
        ...

    def release(self, announced: Collection[int]) -> None:
        """Send held segments again that may be read now."""
        ...

    def discard_damaged(self, sequence: int, reason: str) -> None:
        """Take one that cannot be decoded out of the queue."""
        ...
