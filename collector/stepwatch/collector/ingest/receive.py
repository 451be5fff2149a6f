"""Convert a request body into stored segments, with one verdict per segment."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from stepwatch.collector.ingest.together import WritesTogether
from stepwatch.collector.store import Added, Store, StoredSegment
from stepwatch.collector.store.nodes import report_of
from stepwatch.signals import wire
from stepwatch.signals.clock import Clock
from stepwatch.signals.errors import SegmentError, UnsupportedFormatError
from stepwatch.signals.wire import Segment

ACCEPTED, DUPLICATE, REJECTED = "accepted", "duplicate", "rejected"
UNSUPPORTED = "unsupported"
"""Verdict on a later segment format: the segment is kept unchanged, here or by its agent."""
MAX_BODY_BYTES = 64 << 20
MAX_SEGMENTS = 4096
MAX_ROWS = 1 << 20
"""Maximum rows in one request, unknown kinds included: as many as four of the largest segments.
Agents halve a request that is too large.
"""
DECODED_BYTES = 64 << 20
"""Maximum bytes of decoded rows in memory: a larger body is stored in several transactions."""
MAX_KINDS, OTHER_KINDS = 64, -1
"""Maximum number of unknown kinds counted by number; further ones share one counter."""
MAX_QUARANTINED = 16
"""Maximum segments per request that are kept for inspection."""

Apply = Callable[[list[tuple[int, Segment]], int, str], None]


class TooManyRowsError(Exception):
    """A request holds more than `MAX_ROWS` rows."""


class Verdict(NamedTuple):
    """The result for one segment; `sequence` is None if it could not be read."""

    verdict: str
    sequence: int | None
    reason: str


class Piece(NamedTuple):
    """One piece of a body: its bytes, and its segment or the reason for none.

    `format` is the format number if a later version can read the piece, else 0.
    """

    data: bytes
    segment: Segment | None
    reason: str
    format: int = 0


class Ingest:
    """Stores segments, each exactly once, and passes the new ones to `apply` after the commit.

    Requests may run concurrently: no lock is held while segments are decoded or applied, and the
    database orders the writes. `apply` receives each new segment with its position in its job's
    log, the stored wall time in nanoseconds, and the sender.
    """

    def __init__(self, store: Store, clock: Clock, apply: Apply) -> None:
        self.counts = {ACCEPTED: 0, DUPLICATE: 0, REJECTED: 0, UNSUPPORTED: 0}
        self.unknown_records: Counter[int] = Counter()
        """Records with unknown kinds, by kind number."""
        self.undecoded = store.undecoded.count()
        """Number of segments stored for a later version."""
        self._store = store
        self._apply = apply
        self._counting = threading.Lock()
        self._writes = WritesTogether(store, clock)

    def receive(self, body: bytes, source: str = "") -> list[Verdict]:
        """Decode and store every segment in `body`, in order, with a verdict on each.

        Data after the first `MAX_SEGMENTS` is rejected as one piece.

        Raises:
            TooManyRowsError: it holds more than `MAX_ROWS`; segments stored before the error are
                duplicates in the retry.
            sqlalchemy.exc.SQLAlchemyError: the store is unavailable; nothing was acknowledged, and
                segments already stored are duplicates in the retry.
        """
        verdicts: list[Verdict] = []
        for group in _grouped(_pieces(body)):
            verdicts.extend(self._ingest(group, source))
        return verdicts

    def _ingest(self, pieces: list[Piece], source: str) -> list[Verdict]:
        segments = [piece.segment for piece in pieces if piece.segment is not None]
        good = [
            StoredSegment(p.segment, p.data)
            for p in pieces
            if p.segment is not None and not p.segment.key.of_node
        ]
        added, now = self._writes.add(good)
        placed = zip(good, added, strict=True)
        fresh = [(result.position, stored.segment) for stored, result in placed if result.new]
        # First, because later calls may fail: without it the segments are read from the log, but
        # later.
        if fresh:
            self._apply(fresh, now, source)
        verdicts = list(_verdicts(pieces, self._with_reports(segments, added, now)))
        self._count(verdicts, (segment for _, segment in fresh))
        decided = zip(pieces, verdicts, strict=True)
        bad = (
            (piece.data, verdict.reason)
            for piece, verdict in decided
            if verdict.verdict == REJECTED
        )
        self._store.quarantine(itertools.islice(bad, MAX_QUARANTINED), now)
        later = [(piece.data, piece.format) for piece in pieces if piece.format]
        if later:
            count = self._store.undecoded.keep(later, now)
            with self._counting:
                self.undecoded += count
        return verdicts

    def _with_reports(
        self, segments: list[Segment], added: list[Added], now_ns: int
    ) -> Iterator[Added]:
        """Yield the results for all segments, of jobs and of nodes, in order.

        A repeated job segment repeats its node report: the first answer may have been lost before
        the report was written. A second write changes nothing.
        """
        keyed_reports = [(segment.key, report_of(segment, now_ns)) for segment in segments]
        reports = [(key, report) for key, report in keyed_reports if report is not None]
        refusals = self._store.nodes.add([report for _, report in reports])
        of_nodes = zip(reports, refusals, strict=True)
        refused = [refusal for (key, _), refusal in of_nodes if key.of_node]
        jobs, nodes = iter(added), iter(refused)
        for segment in segments:
            if segment.key.of_node:
                refusal = next(nodes)
                yield Added(new=not refusal, refusal=refusal)
            else:
                yield next(jobs)

    def _count(self, verdicts: Iterable[Verdict], fresh: Iterable[Segment]) -> None:
        with self._counting:
            for name, count in Counter(verdict.verdict for verdict in verdicts).items():
                self.counts[name] += count
            self._count_unknown(fresh)

    def _count_unknown(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            if not segment.unknown:
                continue
            for number, rows in segment.unknown.items():
                is_counted = number in self.unknown_records or len(self.unknown_records) < MAX_KINDS
                self.unknown_records[number if is_counted else OTHER_KINDS] += len(rows)


def _pieces(body: bytes) -> Iterator[Piece]:
    room = MAX_ROWS
    for index, data in enumerate(wire.split(body)):
        if index == MAX_SEGMENTS:
            reason = f"more than {MAX_SEGMENTS} segments in one request; send the rest again"
            yield Piece(data, None, reason)
            return
        try:
            segment = wire.decode(data)
        except UnsupportedFormatError as error:
            yield Piece(data, None, str(error), error.format)
        except SegmentError as error:
            yield Piece(data, None, str(error))
        else:
            room -= segment.row_count
            if room < 0:
                raise TooManyRowsError
            yield Piece(data, segment, "")


def _grouped(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += 0 if piece.segment is None else piece.segment.nbytes
        if size >= DECODED_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _verdicts(pieces: list[Piece], added: Iterable[Added]) -> Iterator[Verdict]:
    results = iter(added)
    for piece in pieces:
        if piece.segment is None:
            verdict = UNSUPPORTED if piece.format else REJECTED
            yield Verdict(verdict, _sequence(piece.data), piece.reason)
            continue
        result = next(results)
        verdict = REJECTED if result.refusal else ACCEPTED if result.new else DUPLICATE
        yield Verdict(verdict, piece.segment.key.sequence, result.refusal)


def _sequence(data: bytes) -> int | None:
    try:
        return wire.peek_key(data).sequence
    except SegmentError:
        return None
