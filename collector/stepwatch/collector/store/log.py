"""Reads a job's log by position, from bundles and from loose segments."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice, tee
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles import frame
from stepwatch.collector.store.bundles.objects import Reference, fetched, fetched_ahead
from stepwatch.collector.store.database import hold_moment
from stepwatch.collector.store.payload import StoredPayload
from stepwatch.signals.errors import SegmentError

_PLACES_AT_ONCE = 4096
"""Number of positions in memory during the search for gaps."""
_READ_AT_ONCE = 16
"""Number of payloads in memory during a read, at most 8 MiB each."""


def read_segments(
    engine: sa.Engine, job: str, after_position: int, limit: int | None
) -> Generator[StoredPayload]:
    """Yield at most `limit` segments of a job after `after_position`, ordered by position.

    A segment that moves into a bundle during the read appears exactly once: segment rows are
    queried first, so that none is missed, and duplicates in a bundle are skipped.
    """
    table = schema.segment
    query = sa.select(table.c.payload, table.c.received_ns, table.c.position)
    query = query.where(table.c.job == job, table.c.position > after_position)
    query = query.order_by(table.c.position).limit(limit)
    with engine.connect() as connection, ExitStack() as closing:
        rows = connection.execution_options(yield_per=_READ_AT_ONCE).execute(query)
        closing.callback(rows.close)
        bundles = connection.execute(_bundles_behind(job, after_position)).all()
        payloads: Iterable[StoredPayload] = _loose(rows)
        if bundles:
            payloads = _each_once(
                _bundled(connection, bundles, after_position), payloads, after_position
            )
        yield from islice(payloads, limit)


def _bundles_behind(job: str, after_position: int) -> sa.Select[Any]:
    table = schema.bundle
    names = ("id", "first", "last", "segments", "object", "first_received_ns", "last_received_ns")
    query = sa.select(*(table.c[name] for name in names))
    return query.where(table.c.job == job, table.c.last > after_position).order_by(table.c.last)


def _loose(rows: Iterable[Any]) -> Iterator[StoredPayload]:
    for row in rows:
        yield StoredPayload(bytes(row.payload), int(row.received_ns), int(row.position))


def _bundled(
    connection: sa.Connection, bundles: Sequence[Any], after_position: int
) -> Iterator[StoredPayload]:
    for listed, fetch in _fetched(connection, bundles):
        try:
            data = fetch()
            bundle = frame.unpacked(data)
        except SegmentError as error:
            damage = SegmentError(f"positions {listed.first} to {listed.last} in a bundle: {error}")
            first, last = max(int(listed.first), after_position + 1), int(listed.last)
            came = int(listed.first_received_ns), int(listed.last_received_ns)
            count = min(int(listed.segments), last - first + 1)
            yield StoredPayload.unreadable(damage, (first, last), came, count)
            continue
        size = len(data) // len(bundle.positions)
        for index, position in enumerate(bundle.positions):
            if position > after_position:
                yield StoredPayload.of_bundle(bundle, index, size)


def _fetched(
    connection: sa.Connection, bundles: Sequence[Any]
) -> Iterator[tuple[Any, Callable[[], bytes]]]:
    """Yield each bundle with a function that returns its bytes; objects are prefetched."""
    rows = _references(connection, bundles)
    if not any(listed.object for listed in bundles):
        for listed, reference in rows:
            yield listed, partial(fetched, reference)
        return
    ahead, pairs = tee(rows)
    futures = fetched_ahead(reference for _, reference in ahead)
    for future, (listed, _) in zip(futures, pairs, strict=False):
        yield listed, future.result


def _references(
    connection: sa.Connection, bundles: Iterable[Any]
) -> Iterator[tuple[Any, Reference]]:
    table = schema.bundle
    columns = [table.c[name] for name in Reference._fields]
    for listed in bundles:
        row = connection.execute(sa.select(*columns).where(table.c.id == listed.id)).one_or_none()
        if row is not None:  # None: it was removed meanwhile
            yield listed, Reference(*row)


def _each_once(
    bundled: Iterator[StoredPayload], loose: Iterable[StoredPayload], last_position: int
) -> Iterator[StoredPayload]:
    for payload in heapq.merge(bundled, loose, key=attrgetter("position")):
        if payload.position > last_position:
            last_position = payload.position
            yield payload


def whole_after(engine: sa.Engine, job: str) -> int:
    """Return the newest position that is missing in a job's log, 0 if none is.

    Retention removes old segments but keeps those that an incident refers to: if 4, 5, 8 and 9
    remain from 1 to 9, the result is 7.
    """
    last = sa.select(schema.job.c.position).where(schema.job.c.name == job)
    with engine.connect() as connection:
        hold_moment(connection)  # a segment that moves into a bundle is not missing
        missing = int(connection.execute(last).scalar_one_or_none() or 0)
        for high, low in _newest_first(connection, job):
            if high < missing:
                break
            missing = min(missing, low - 1)
    return missing


def _newest_first(connection: sa.Connection, job: str) -> Iterator[tuple[int, int]]:
    """Yield the last and first position of each log part, a few in memory at a time."""
    segment, bundle = schema.segment, schema.bundle
    loose = _pages(connection, segment.c.job == job, segment.c.position, segment.c.position)
    bundle_pages = _pages(connection, bundle.c.job == job, bundle.c.last, bundle.c.first)
    return heapq.merge(loose, bundle_pages, reverse=True)


def _pages(
    connection: sa.Connection,
    of_job: sa.ColumnElement[bool],
    last: sa.Column[int],
    first: sa.Column[int],
) -> Iterator[tuple[int, int]]:
    query = sa.select(last, first).where(of_job).order_by(last.desc()).limit(_PLACES_AT_ONCE)
    page = connection.execute(query).all()
    while page:
        for high, low in page:
            yield int(high), int(low)
        page = connection.execute(query.where(last < page[-1][0])).all()
