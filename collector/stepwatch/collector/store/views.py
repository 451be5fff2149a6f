"""Answers about jobs that collectors leave for each other, and what somebody waits for."""

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
"""How long an answer is renewed after somebody asked for it."""

KEPT_SECONDS = 24 * 3600.0
"""How long answers stay about jobs that nobody holds."""

_MOST_BYTES = 256 << 20
"""Of one answer, decompressed; the largest, about 16,384 ranks, has a tenth of that."""


class StoredView(NamedTuple):
    """An answer about a job, by the name of its kind, and the moment that it is about."""

    job: str
    name: str
    as_of: float
    payload: bytes


class StoredViews:
    """The table of views; payloads are compressed."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def save(
        self,
        views: Iterable[StoredView],
        leases: Collection[Lease],
        unchanged: Collection[tuple[str, str]] = (),
        now: float = 0.0,
    ) -> None:
        """Store answers about those jobs whose lease holds, in one transaction.

        Of those `unchanged`, by (job, name), what is there is of `now` (Unix seconds), too.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
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
        """Note that somebody waits for an answer; what is there stays.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        with writing(self._engine) as connection:
            now = database_ns(connection)
            new = insert(connection.dialect, schema.view)
            new = new.values(job=job, name=name, wanted_ns=now, as_of=0.0, payload=None)
            connection.execute(
                new.on_conflict_do_update(index_elements=["job", "name"], set_={"wanted_ns": now})
            )

    def wanted(self) -> list[tuple[str, str]]:
        """(job, name) of the answers that somebody asked for lately."""
        table = schema.view
        with self._engine.connect() as connection:
            since = database_ns(connection) - int(WANTED_SECONDS * NANOSECONDS)
            query = sa.select(table.c.job, table.c.name).where(table.c.wanted_ns > since)
            return [(row.job, row.name) for row in connection.execute(query)]

    def get(self, job: str, name: str) -> StoredView | None:
        """The newest answer of a kind about a job; None where there is none."""
        table = schema.view
        query = self._select().where(table.c.job == job, table.c.name == name)
        with self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
            return None if row is None else _view(row)

    def all_of(self, name: str) -> list[StoredView]:
        """The newest answers of a kind about all jobs, newest first."""
        table = schema.view
        query = self._select().where(table.c.name == name)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.as_of.desc(), table.c.job))
            return [_view(row) for row in rows]

    def prune(self) -> None:
        """Remove what was neither written nor asked for within a day: nobody evaluates those jobs.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
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
