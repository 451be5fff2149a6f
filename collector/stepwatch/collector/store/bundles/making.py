"""Builds a bundle from a job's next segments and replaces them in one transaction."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles import keys
from stepwatch.collector.store.bundles.frame import Bundle, Placed, packed, unpacked
from stepwatch.collector.store.bundles.objects import Objects
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError

logger = logging.getLogger(__name__)

MOST_SEGMENTS, MOST_RECORDS, MOST_BYTES = 1024, 1 << 16, 8 << 20
"""Limits per bundle, bytes before compression; one larger segment becomes a bundle by itself."""
MOST_LAYOUTS = 256
"""Maximum number of tables with different kinds or fields; packing time grows with its square."""
FEWEST_SEGMENTS = 8
"""Minimum number of segments: a bundle's description takes about a kilobyte."""
_READ_AT_ONCE = 64

Listed = Sequence[Any]
"""Segments without their payloads: position, received_ns, row_count and size."""


class Behind(NamedTuple):
    """A job's segments after the position `mark`, up to the position `until`."""

    job: str
    mark: int
    until: int


class BundleTotals(NamedTuple):
    """Bundled segments and their size in bytes, and the bundles and their size in bytes."""

    segments: int = 0
    bytes_before: int = 0
    bundles: int = 0
    bytes_after: int = 0

    def plus(self, addend: BundleTotals) -> BundleTotals:
        """Return the sum of both totals."""
        return BundleTotals(*map(sum, zip(self, addend, strict=True)))


def choose(
    connection: sa.Connection, behind: Behind, *, before_ns: int, partly_before_ns: int
) -> Listed:
    """Return the segments for the next bundle, empty if no bundle is due yet.

    All were received before `before_ns`. They fill a bundle, or they are at least `FEWEST_SEGMENTS`
    and the first was received before `partly_before_ns`.
    """
    table = schema.segment
    between = table.c.position.between(behind.mark + 1, behind.until)
    query = sa.select(table.c.position, table.c.received_ns, table.c.row_count)
    query = query.add_columns(sa.func.length(table.c.payload).label("size"))
    query = query.where(table.c.job == behind.job, between).order_by(table.c.position)
    segments = connection.execute(query.limit(MOST_SEGMENTS)).all()
    count, is_full = _fitting(segments, before_ns)
    is_late = count >= FEWEST_SEGMENTS and segments[0].received_ns < partly_before_ns
    return segments[:count] if is_full or is_late else []


def _fitting(segments: Listed, before_ns: int) -> tuple[int, bool]:
    """Return how many leading segments fit into one bundle, and whether the bundle is full."""
    records = size = 0
    for count, segment in enumerate(segments):
        records, size = records + segment.row_count, size + segment.size
        if segment.received_ns >= before_ns:
            return count, False
        if count and (records > MOST_RECORDS or size > MOST_BYTES):
            return count, True
    return len(segments), len(segments) == MOST_SEGMENTS


class Bundling:
    """A bundle from chosen segments: built outside any transaction and stored in one.

    An unreadable segment stays in its row.
    """

    def __init__(self, connection: sa.Connection, behind: Behind, chosen: Listed) -> None:
        self._behind = behind
        self._mark = int(chosen[-1].position)
        self._placed = list(_placed(connection, behind.job, chosen))
        self._object: str | None = None
        self._data = b""
        if self._placed:
            self._pack()
        positions = {placed.position for placed in self._placed}
        sizes = [segment.size for segment in chosen if segment.position in positions]
        self.totals = BundleTotals(len(sizes), sum(sizes), int(bool(sizes)), len(self._data))

    def _pack(self) -> None:
        """Build the bundle and read it back; on any difference the segments stay as they are."""
        try:
            if _layouts(self._placed) > MOST_LAYOUTS:
                raise SegmentError("they have too many kinds of tables")
            self._data = packed(self._placed)
            _compare(unpacked(self._data), self._placed)
        except (SegmentError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            first, last = self._placed[0].position, self._placed[-1].position
            place = (first, last, self._behind.job)
            logger.warning("segments %d to %d of %s stay as they are: %s", *place, error)
            self._data, self._placed = b"", []

    @property
    def next(self) -> Behind:
        """The part of the log after the bundle, which no bundle holds yet."""
        return self._behind._replace(mark=self._mark)

    def put(self, objects: Objects, base: str) -> None:
        """Write the bundle as an object below a URL; the bundle's row refers to it.

        Raises:
            ObjectsUnreachable: the object could not be written.
        """
        if self._placed:
            first, last = self._placed[0].position, self._placed[-1].position
            name = f"{first}-{last}-{zlib.crc32(self._data):08x}"
            self._object = f"{base}/{self._behind.job}/{name}"
            objects.put(self._object, self._data)

    def store(self, connection: sa.Connection) -> bool:
        """Replace the segments with the bundle, within the connection's transaction.

        Returns False if the job's log has changed; the caller must then roll back.
        """
        job = schema.job
        of_job = job.c.name == self._behind.job
        mark = sa.select(job.c.bundled).where(of_job).with_for_update()
        if connection.execute(mark).scalar_one_or_none() != self._behind.mark:
            return False
        if self._placed:
            if not self._take_out(connection):
                return False
            connection.execute(sa.insert(schema.bundle).values(**self._row()))
            keys.add(connection, [placed.sent.key for placed in self._placed])
        connection.execute(sa.update(job).where(of_job).values(bundled=self._mark))
        return True

    def _take_out(self, connection: sa.Connection) -> bool:
        """Delete the segments; return False if some no longer exist."""
        table, positions = schema.segment, {placed.position for placed in self._placed}
        first, last = min(positions), max(positions)
        excluded_positions = [
            position for position in range(first, last + 1) if position not in positions
        ]
        among: sa.ColumnElement[bool] = table.c.position.between(first, last)
        if len(excluded_positions) <= len(positions):
            among = sa.and_(among, table.c.position.not_in(excluded_positions))
        else:
            among = table.c.position.in_(positions)
        remove = sa.delete(table).where(table.c.job == self._behind.job, among)
        return connection.execute(remove).rowcount == len(positions)

    def _row(self) -> dict[str, Any]:
        received = [placed.received_ns for placed in self._placed]
        return {
            "job": self._behind.job,
            "first": self._placed[0].position,
            "last": self._placed[-1].position,
            "segments": len(self._placed),
            "records": sum(len(rows) for placed in self._placed for _, rows in placed.sent.tables),
            "first_received_ns": min(received),
            "last_received_ns": max(received),
            "size": len(self._data),
            "crc32": zlib.crc32(self._data),
            "payload": self._data if self._object is None else None,
            "object": self._object,
        }


def _layouts(placed: Iterable[Placed]) -> int:
    return len({(number, rows.dtype) for segment in placed for number, rows in segment.sent.tables})


def _compare(bundle: Bundle, placed: Sequence[Placed]) -> None:
    """Check that a bundle holds these segments.

    Raises:
        SegmentError: the bundle differs.
    """
    if list(bundle.positions) != [segment.position for segment in placed]:
        raise SegmentError("their bundle has other positions")
    for index, segment in enumerate(placed):
        if _content(bundle.placed(index)) != _content(segment):
            raise SegmentError(f"their bundle has another segment at {segment.position}")


def _content(placed: Placed) -> tuple[Any, ...]:
    sent = placed.sent
    tables = [(number, rows.dtype, rows.tobytes()) for number, rows in sent.tables]
    return placed.received_ns, sent.key, sent.clock, tables


def _placed(connection: sa.Connection, job: str, chosen: Listed) -> Iterator[Placed]:
    table = schema.segment
    columns = [table.c[name] for name in (*wire.SegmentKey._fields, "received_ns", "payload")]
    query = sa.select(table.c.position, *columns).order_by(table.c.position)
    between = table.c.position.between(chosen[0].position, chosen[-1].position)
    rows = connection.execution_options(yield_per=_READ_AT_ONCE).execute(
        query.where(table.c.job == job, between)
    )
    for row in rows:
        try:
            sent = wire.read_sent(bytes(row.payload))
            if tuple(sent.key) != tuple(row)[1 : 1 + len(sent.key)]:
                raise SegmentError("it is a segment of another key")
        except SegmentError as error:
            logger.warning("segment %d of %s stays as it is: %s", row.position, job, error)
            continue
        yield Placed(int(row.position), int(row.received_ns), sent)
