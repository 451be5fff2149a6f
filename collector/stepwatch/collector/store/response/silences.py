"""Silences: they keep notices of some incidents from being sent for a while; nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store.database import writing
from stepwatch.collector.store.leases import Now, database_ns
from stepwatch.collector.store.schema import DAY_NS
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import StoreError

from .tables import silence

MOST_IN_FORCE = 1000
"""Silences at one time; each notice is compared with all of them."""
LONGEST_SECONDS = 30 * 24 * 3600.0
"""A silence that lasts longer is forgotten; what shall never page is no alert."""
KEPT_DAYS = 180
"""An ended silence stays so long, for who asks why nobody was paged."""
_ABOUT = ("job", "node", "kind")


class Wanted(NamedTuple):
    """A silence that somebody asks for: what it is about (empty: any), why, who, how long."""

    job: str
    node: str
    kind: str
    why: str
    by: str
    seconds: float
    alertmanager: str = ""


class Silence(NamedTuple):
    """A silence, Unix seconds; `expired_by` is who ended it before its time, empty for nobody."""

    id: str
    job: str
    node: str
    kind: str
    why: str
    by: str
    since: float
    until: float
    expired_by: str
    alertmanager: str

    def covers(self, incident: Mapping[str, Any]) -> bool:
        """Whether an incident's document has all that the silence names."""
        named = [key for key in _ABOUT if getattr(self, key)]
        return bool(named) and all(incident.get(key) == getattr(self, key) for key in named)

    def words(self) -> str:
        """What it is about, in words."""
        named = [f"{key} {getattr(self, key)}" for key in _ABOUT if getattr(self, key)]
        return ", ".join(named)


class Silences:
    """The silences of a store; they begin and end by the database's clock."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    def add(self, wanted: Wanted) -> Silence:
        """Write a silence that begins now.

        Raises:
            StoreError: as many as there may be are in force.
            sqlalchemy.exc.SQLAlchemyError: the database is gone; nothing was written.
        """
        with writing(self._engine) as connection:
            now = self._now(connection)
            connection.execute(
                sa.delete(silence).where(silence.c.until_ns < now - KEPT_DAYS * DAY_NS)
            )
            counted = sa.select(sa.func.count()).where(silence.c.until_ns > now)
            if connection.execute(counted).scalar_one() >= MOST_IN_FORCE:
                raise StoreError(
                    f"{MOST_IN_FORCE} silences are in force; expire some, or silence a whole job"
                )
            until = now + int(wanted.seconds * NANOSECONDS)
            values = wanted._asdict() | {"written_by": wanted.by, "expired_by": ""}
            values |= {"id": uuid.uuid4().hex[:12], "since_ns": now, "until_ns": until}
            row = {column.name: values[column.name] for column in silence.columns}
            connection.execute(sa.insert(silence), row)
        return _silence(row)

    def expire(self, identity: str, author: str) -> Silence | None:
        """End a silence now, and say who did; one that is over stays as it is, None: there is none.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; nothing was written.
        """
        with writing(self._engine) as connection:
            now = self._now(connection)
            has_id = silence.c.id == identity
            change = sa.update(silence).where(has_id, silence.c.until_ns > now)
            connection.execute(change.values(until_ns=now, expired_by=author))
            row = connection.execute(sa.select(silence).where(has_id)).mappings().first()
        return None if row is None else _silence(row)

    def get(self, identity: str) -> Silence | None:
        """A silence by its id, also one that is over; None where there is none."""
        silences = self._read(silence.c.id == identity)
        return silences[0] if silences else None

    def in_force(self) -> list[Silence]:
        """Those that neither ended nor were expired, the newest first."""
        with self._engine.connect() as connection:
            now = self._now(connection)
        return self._read(silence.c.until_ns > now)

    def oldest_seconds(self) -> float:
        """How long ago the oldest of those in force began; 0 where none is."""
        with self._engine.connect() as connection:
            now = self._now(connection)
            oldest = sa.select(sa.func.min(silence.c.since_ns)).where(silence.c.until_ns > now)
            since = connection.execute(oldest).scalar_one()
        return 0.0 if since is None else max(now - since, 0) / NANOSECONDS

    def between(self, from_s: float, until_s: float) -> list[Silence]:
        """Those that were in force at some moment between two (Unix seconds), the newest first."""
        began = silence.c.since_ns <= int(until_s * NANOSECONDS)
        return self._read(began, silence.c.until_ns > int(from_s * NANOSECONDS))

    def _read(self, *conditions: sa.ColumnElement[bool]) -> list[Silence]:
        query = sa.select(silence).where(*conditions)
        query = query.order_by(silence.c.since_ns.desc(), silence.c.id).limit(MOST_IN_FORCE)
        with self._engine.connect() as connection:
            return [_silence(row) for row in connection.execute(query).mappings()]


def covering(silences: Iterable[Silence], incident: Mapping[str, Any]) -> Silence | None:
    """The one that covers an incident for longest; None where none does."""
    matches = [candidate for candidate in silences if candidate.covers(incident)]
    return max(matches, key=lambda candidate: candidate.until, default=None)


def _silence(row: Mapping[Any, Any]) -> Silence:
    fields = {name: row[name] for name in ("id", *_ABOUT, "why", "expired_by", "alertmanager")}
    since, until = row["since_ns"] / NANOSECONDS, row["until_ns"] / NANOSECONDS
    return Silence(**fields, by=row["written_by"], since=since, until=until)
