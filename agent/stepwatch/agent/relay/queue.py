"""The relay's source: a spool on disk, or an equivalent queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol


class SegmentQueue(Protocol):
    """Segments to send, by number, oldest first; `Spool` documents each method."""

    def __len__(self) -> int: ...

    @property
    def held_segments(self) -> int:
        """Number of segments that wait for a collector that can read them."""
        ...

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Return up to `count` of the oldest segments as (number, bytes)."""
        ...

    def acknowledge(self, sequences: Collection[int], refused: Collection[int] = ...) -> None:
        """Record that the collector is done with these; those in `refused` it never takes."""
        ...

    def hold(self, sequences: Iterable[int], announced: Collection[int]) -> None:
        """Keep these unsent until the collector reads more than `announced`."""
        ...

    def release(self, announced: Collection[int]) -> None:
        """Send held segments again that may be readable now."""
        ...

    def discard_damaged(self, sequence: int, reason: str) -> None:
        """Remove a segment that cannot be decoded."""
        ...
