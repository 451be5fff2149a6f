"""Integrity check for a store: checksums, positions, documents."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles import frame
from stepwatch.collector.store.bundles.objects import Reference, fetched
from stepwatch.collector.store.outages.outage import reason_of
from stepwatch.collector.store.slices.blocks import unpacked
from stepwatch.signals import wire
from stepwatch.signals.errors import SegmentError

_AT_ONCE = 64
"""Number of rows in memory during a check."""


def problems(engine: sa.Engine) -> Iterator[str]:
    """Yield each problem in one sentence; reads every byte and changes nothing."""
    for check in (
        _database,
        _positions,
        _segments,
        _bundles,
        _twice,
        _undecoded,
        _snapshots,
        _slices,
        _incidents,
    ):
        try:
            with engine.connect() as connection:
                yield from check(connection.execution_options(yield_per=_AT_ONCE))
        except sa.exc.SQLAlchemyError as error:
            yield f"the database does not read: {reason_of(error)}"


def _database(connection: sa.Connection) -> Iterator[str]:
    """Yield SQLite's own findings; PostgreSQL checks its pages when it reads them."""
    if connection.dialect.name == "sqlite":
        for (message,) in connection.exec_driver_sql("PRAGMA integrity_check"):
            if message != "ok":
                yield f"the file is damaged: {message}"


def _positions(connection: sa.Connection) -> Iterator[str]:
    segment, bundle, job = schema.segment, schema.bundle, schema.job
    last = sa.select(bundle.c.job, sa.func.max(bundle.c.last).label("last"), job.c.position)
    last = last.join(job, job.c.name == bundle.c.job, isouter=True)
    for row in connection.execute(last.group_by(bundle.c.job, job.c.position)):
        if row.position is None or row.position < row.last:
            yield f"job {row.job} has a bundle up to {row.last}, but its row has {row.position}"
    stored = (
        sa.select(segment.c.job, sa.func.count().label("count"))
        .add_columns(sa.func.count(segment.c.position.distinct()).label("different"))
        .add_columns(sa.func.max(segment.c.position).label("last"))
        .group_by(segment.c.job)
        .subquery()
    )
    query = sa.select(stored, job.c.position).join(job, job.c.name == stored.c.job, isouter=True)
    for row in connection.execute(query):
        if row.position is None or row.position < row.last:
            yield f"job {row.job} has a segment at {row.last}, but its row has {row.position}"
        if row.different < row.count:
            yield f"job {row.job} has {row.count - row.different} positions twice"


def _segments(connection: sa.Connection) -> Iterator[str]:
    columns = [schema.segment.c[name] for name in (*wire.SegmentKey._fields, "position", "payload")]
    for row in connection.execute(sa.select(*columns)):
        place = f"segment {row.position} of job {row.job}"
        try:
            data = bytes(row.payload)
            wire.check(data)
            if tuple(wire.peek_key(data)) != tuple(row)[: len(wire.SegmentKey._fields)]:
                yield f"{place} holds a segment of another key"
        except (SegmentError, TypeError) as error:
            yield f"{place} is damaged: {error}"


def _bundles(connection: sa.Connection) -> Iterator[str]:
    """Check each bundle, its row, and overlaps between bundles."""
    table, ends = schema.bundle, dict[str, int]()
    query = sa.select(table.c.id).order_by(table.c.job, table.c.last)
    identities = connection.execute(query).scalars().all()
    for identity in identities:
        row = connection.execute(sa.select(table).where(table.c.id == identity)).one_or_none()
        # Reading an object may take long, and a server ends idle transactions.
        connection.rollback()
        if row is None:  # it was removed meanwhile
            continue
        place = f"the bundle of segments {row.first} to {row.last} of job {row.job}"
        if (damage := _damage(row)) is not None:
            yield f"{place} {damage}"
        if row.first <= ends.get(row.job, 0):
            yield f"{place} begins before the one before it ends"
        ends[row.job] = row.last


def _damage(row: sa.Row[Any]) -> str | None:
    """Return a bundle's damage, or None if it is sound."""
    try:
        reference = Reference(row.payload, row.object, row.size, row.crc32)
        positions = frame.unpacked(fetched(reference)).positions
    except (SegmentError, TypeError) as error:
        return f"is damaged: {error}"
    if (positions[0], positions[-1], len(positions)) != (row.first, row.last, row.segments):
        return f"holds segments {positions[0]} to {positions[-1]}"
    return None


def _twice(connection: sa.Connection) -> Iterator[str]:
    """Yield segments whose keys are also in a bundle."""
    segment, bundled_keys = schema.segment, schema.bundle_key
    conditions = [
        segment.c[name] == bundled_keys.c[name] for name in ("job", "attempt", "node", "spool")
    ]
    conditions.append(segment.c.sequence.between(bundled_keys.c.first, bundled_keys.c.last))
    query = sa.select(segment.c.job, segment.c.position)
    for row in connection.execute(query.join_from(segment, bundled_keys, sa.and_(*conditions))):
        yield f"segment {row.position} of job {row.job} is in a bundle as well"


def _undecoded(connection: sa.Connection) -> Iterator[str]:
    table = schema.undecoded
    for row in connection.execute(sa.select(table.c.id, table.c.digest, table.c.payload)):
        if not _is_bytes(row.payload) or hashlib.sha256(row.payload).hexdigest() != row.digest:
            yield f"kept segment {row.id} does not match its digest"


def _snapshots(connection: sa.Connection) -> Iterator[str]:
    for row in connection.execute(sa.select(schema.snapshot)):
        if not _is_bytes(row.payload) or zlib.crc32(row.payload) != row.crc32:
            yield f"snapshot {row.id} of job {row.job} does not match its checksum"


def _slices(connection: sa.Connection) -> Iterator[str]:
    """Check each block of slices, and that its row describes it."""
    table = schema.slice_block
    for row in connection.execute(sa.select(table)):
        place = f"the {row.sli} slices of job {row.job} on the day from {row.day_s}"
        try:
            slices = unpacked(bytes(row.payload))
        except (TypeError, ValueError) as error:
            yield f"{place} are damaged: {error}"
            continue
        if (slices["start_s"][0], slices["start_s"][-1]) != (row.first_s, row.last_s):
            yield f"{place} are others than its row says"


def _incidents(connection: sa.Connection) -> Iterator[str]:
    table = schema.incident
    kind = sa.LargeBinary() if connection.dialect.name == "sqlite" else sa.Text()
    for row in connection.execute(sa.select(table.c.id, sa.cast(table.c.document, kind))):
        try:
            sound = isinstance(json.loads(row[1]), dict)
        except (ValueError, RecursionError):
            sound = False
        if not sound:
            yield f"the document of incident {row.id} is damaged"


def _is_bytes(value: object) -> bool:
    """Return whether SQLite returned bytes; with a damaged type tag it returns text."""
    return isinstance(value, bytes)
