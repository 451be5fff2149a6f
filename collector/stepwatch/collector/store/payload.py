"""A stored segment, as it arrived or out of a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwatch.collector.store.bundles.frame import Bundle
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.wire import Segment


class StoredPayload:
    """A stored segment, when it came (wall nanoseconds), and its place in its job's log.

    It is as it arrived, or one of a `bundle`. A bundle that cannot be read is one for all of its
    `count` segments, at the position of the last.
    """

    def __init__(self, payload: bytes, received_ns: int, position: int) -> None:
        self.received_ns = received_ns
        self.position = position
        self.size = len(payload)
        """About the bytes that it takes in the store."""
        self.count = 1
        self.first = position
        """The first position that it stands for: another one only where a bundle is damaged."""
        self.first_received_ns = received_ns
        self._payload = payload
        self._bundle: Bundle | None = None
        self._index = 0
        self._damage: SegmentError | None = None

    @classmethod
    def of_bundle(cls, bundle: Bundle, index: int, size: int) -> StoredPayload:
        """The segment at an index of a bundle's positions; it takes `size` bytes of the bundle."""
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
        """All of a bundle that cannot be read: its first and last position, when (wall
        nanoseconds) the first and the last segment came, and how many there are."""
        stored = cls(b"", received_ns[1], positions[1])
        stored.first, stored.first_received_ns = positions[0], received_ns[0]
        stored._damage, stored.count = damage, count
        return stored

    @property
    def payload(self) -> bytes:
        """Its bytes on the wire: as they came, or packed again, which costs more.

        Raises:
            SegmentError: the bundle that it was in cannot be read.
        """
        if self._damage is not None:
            raise self._damage
        if self._bundle is None:
            return self._payload
        return wire.write_sent(self._bundle.placed(self._index).sent)

    def segment(self) -> Segment:
        """The segment, decoded.

        Raises:
            SegmentError: it is damaged, or the bundle that it was in.
        """
        if self._damage is not None:
            raise self._damage
        if self._bundle is None:
            return wire.decode(self._payload)
        return self._bundle.segment(self._index)

    def __iter__(self) -> Iterator[Any]:
        """Its bytes, when it came, and its position."""
        return iter((self.payload, self.received_ns, self.position))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StoredPayload):
            return NotImplemented
        identity = (self.position, self.received_ns, self.payload)
        return identity == (other.position, other.received_ns, other.payload)

    __hash__ = None  # type: ignore[assignment]
