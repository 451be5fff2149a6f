"""A stored segment: as received, or inside a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwatch.collector.store.bundles.frame import Bundle
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.wire import Segment


class StoredPayload:
    """A stored segment, its wall time received in nanoseconds, and its position in the job's log.

    It holds the received bytes, or refers to a `bundle`. An unreadable bundle is one item for all
    its `count` segments, at the position of the last.
    """

    def __init__(self, payload: bytes, received_ns: int, position: int) -> None:
        self.received_ns = received_ns
        self.position = position
        self.size = len(payload)
        """Approximate size in the store, in bytes."""
        self.count = 1
        self.first = position
        """The first position covered; it differs from `position` only for a damaged bundle."""
        self.first_received_ns = received_ns
        self._payload = payload
        self._bundle: Bundle | None = None
        self._index = 0
        self._damage: SegmentError | None = None

    @classmethod
    def of_bundle(cls, bundle: Bundle, index: int, size: int) -> StoredPayload:
        """Return the segment at an index in a bundle; it takes `size` bytes in the bundle."""
        stored = cls(b"", bundle.received_ns[index], bundle.positions[index])
        stored._bundle, stored._index, stored.size = bundle, index, size
        return stored

    @classmethod
    def unreadable(
        cls,
        damage: SegmentError,
        positions: tuple[int, int],
        received_ns: tuple[int, int],
        count: int,
    ) -> StoredPayload:
        """Return one item for an unreadable bundle.

        `positions` and `received_ns` (wall nanoseconds) are those of the first and last segment,
        `count` is the number of segments.
        """
        stored = cls(b"", received_ns[1], positions[1])
        stored.first, stored.first_received_ns = positions[0], received_ns[0]
        stored._damage, stored.count = damage, count
        return stored

    @property
    def payload(self) -> bytes:
        """The wire bytes: as received, or packed again, which costs more.

        Raises:
            SegmentError: the segment's bundle is unreadable.
        """
        if self._damage is not None:
            raise self._damage
        if self._bundle is None:
            return self._payload
        return wire.write_sent(self._bundle.placed(self._index).sent)

    def segment(self) -> Segment:
        """Return the decoded segment.

        Raises:
            SegmentError: the segment or its bundle is damaged.
        """
        if self._damage is not None:
            raise self._damage
        if self._bundle is None:
            return wire.decode(self._payload)
        return self._bundle.segment(self._index)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the bytes, the time received, and the position."""
        return iter((self.payload, self.received_ns, self.position))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredPayload):
            return NotImplemented
        identity = (self.position, self.received_ns, self.payload)
        return identity == (other.position, other.received_ns, other.payload)

    __hash__ = None  # type: ignore[assignment]
