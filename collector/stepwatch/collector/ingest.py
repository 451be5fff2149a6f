"""A request body of segments becomes stored segments and one verdict each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stepwatch.collector.store import Store, StoredSegment
from stepwatch.signals import wire
from stepwatch.signals.clock import Clock
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.wire import Segment

ACCEPTED, DUPLICATE, REJECTED = "accepted", "duplicate", "rejected"
MAX_BODY_BYTES = 64 << 20
MAX_SEGMENTS = 4096


class Verdict(NamedTuple):
    """What became of one segment; `sequence` is None where not even that could be read."""

    verdict: str
    sequence: int | None
    reason: str


class Ingest:
    """Stores segments, each exactly once, and hands the new ones to `apply` after the commit."""

    def __init__(self, store: Store, clock: Clock, apply: Callable[[list[Segment]], None]) -> None:
        self.counts = {ACCEPTED: 0, DUPLICATE: 0, REJECTED: 0}
        self._store = store
        self._clock = clock
        self._apply = apply

    def receive(self, body: bytes) -> list[Verdict]:
        """Decode, store and judge every segment of `body`, in order.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store is gone; nothing was acknowledged.
        """
        now = self._clock.wall_ns()
        verdicts: list[Verdict | None] = []
        good: list[StoredSegment] = []
        bad: list[tuple[bytes, str]] = []
        for data in wire.split(body):
            try:
                if len(verdicts) >= MAX_SEGMENTS:
                    raise SegmentError(f"more than {MAX_SEGMENTS} segments in one request")
                good.append(StoredSegment(wire.decode(data), data))
                verdicts.append(None)
            except SegmentError as error:
                bad.append((data, str(error)))
                verdicts.append(Verdict(REJECTED, _sequence(data), str(error)))
        fresh = self._store.add_segments(good, now) if good else []
        self._store.quarantine(bad[:16], now)
        self._apply([stored.segment for stored, new in zip(good, fresh, strict=True) if new])
        return self._filled(verdicts, good, fresh)

    def _filled(
        self, verdicts: list[Verdict | None], good: list[StoredSegment], fresh: list[bool]
    ) -> list[Verdict]:
        stored = iter(zip(good, fresh, strict=True))
        result = []
        for verdict in verdicts:
            if verdict is None:
                item, new = next(stored)
                sequence = item.segment.key.sequence
                verdict = Verdict(ACCEPTED if new else DUPLICATE, sequence, "")
            self.counts[verdict.verdict] += 1
            result.append(verdict)
        return result


def _sequence(data: bytes) -> int | None:
    try:
        return wire.peek_key(data).sequence
    except SegmentError:
        return None
