"""Stored answers about jobs for other collectors, and pending requests."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert, writing
from stepwatch.collector.store.leases import Lease, database_ns, still_held
from stepwatch.signals.access.bounded import inflate_within
from stepwatch.signals.clock import NANOSECONDS

WANTED_SECONDS = 30.0
"""Time for which an answer is renewed after a request."""

KEPT_SECONDS = 24 * 3600.0
"""Retention for answers about jobs without a holder."""

_MOST_BYTES = 256 << 20
"""Size limit per decompressed answer; the largest, for about 16,384 ranks, has a tenth of it."""


class StoredView(NamedTuple):
    """An answer about a job, with its kind's name and the moment it describes."""

    job: str
    name: str
    as_of: float
    payload: bytes


class StoredViews:
    """The view table; payloads are compressed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def save(
        self,
        views: Iterable[StoredView],
        leases: Collection[Lease],
        unchanged: Collection[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> None:
        """Store answers for the jobs whose lease is still valid, in one transaction.

        For `unchanged` (job, name) pairs the stored answer is dated `now` (Unix seconds).

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        rows = [(view, zlib.compress(view.payload, 1)) for view in views]
        with writing(self._engine) as connection:
            held_jobs = still_held(connection, leases)
            for view, packed in rows:
                if view.job in held_jobs:
                    row = {"job": view.job, "name": view.name, "as_of": view.as_of}
                    new = insert(connection.dialect, schema.view)
                    new = new.values(**row, wanted_ns=0, payload=packed)
                    change = {"as_of": view.as_of, "payload": packed}
                    connection.execute(
                        new.on_conflict_do_update(index_elements=["job", "name"], set_=change)
                    )
            if still := [key for key in unchanged if key[0] in held_jobs]:
                table = schema.view
                dated = sa.update(table).where(sa.tuple_(table.c.job, table.c.name).in_(still))
                connection.execute(dated.where(table.c.as_of > 0).values(as_of=now))

    def want(self, job: str, name: str) -> None:
        """Record a request for an answer; a stored answer stays.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        with writing(self._engine) as connection:
            now = database_ns(connection)
            new = insert(connection.dialect, schema.view)
            new = new.values(job=job, name=name, wanted_ns=now, as_of=0.0, payload=None)
            connection.execute(
                new.on_conflict_do_update(index_elements=["job", "name"], set_={"wanted_ns": now})
            )

    def wanted(self) -> list[tuple[str, str]]:
        """Return the recently requested answers as (job, name)."""
        table = schema.view
        with self._engine.connect() as connection:
            since = database_ns(connection) - int(WANTED_SECONDS * NANOSECONDS)
            query = sa.select(table.c.job, table.c.name).where(table.c.wanted_ns > since)
            return [(row.job, row.name) for row in connection.execute(query)]

    def get(self, job: str, name: str) -> StoredView | None:
        """Return the newest answer about a job; None if there is none."""
        table = schema.view
        query = self._select().where(table.c.job == job, table.c.name == name)
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
            return None if row is None else _view(row)

    def all_of(self, name: str) -> list[StoredView]:
        """Return the newest answers about all jobs, newest first."""
        table = schema.view
        query = self._select().where(table.c.name == name)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.as_of.desc(), table.c.job))
            return [_view(row) for row in rows]

    def prune(self) -> None:
        """Remove answers neither written nor requested within a day.

        No collector evaluates those jobs.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        table = schema.view
        with writing(self._engine) as connection:
            cutoff_ns = database_ns(connection) - int(KEPT_SECONDS * NANOSECONDS)
            old = sa.and_(table.c.as_of < cutoff_ns / NANOSECONDS, table.c.wanted_ns < cutoff_ns)
            connection.execute(sa.delete(table).where(old))

    def _select(self) -> sa.Select[Any]:
        columns = (schema.view.c[name] for name in StoredView._fields)
        return sa.select(*columns).where(schema.view.c.payload.is_not(None))


def _view(row: sa.Row[Any]) -> StoredView:
    payload = inflate_within(row.payload, _MOST_BYTES)
    return StoredView(row.job, row.name, float(row.as_of), payload)
