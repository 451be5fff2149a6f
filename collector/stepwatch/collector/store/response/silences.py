"""Silences: they hold notices about some incidents for a while and have no other effect."""

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
"""Maximum number of active silences; each notice is compared with all of them."""
LONGEST_SECONDS = 30 * 24 * 3600.0
"""Maximum duration: a longer silence is forgotten, and a permanent one should be no alert."""
KEPT_DAYS = 180
"""Retention for ended silences, to explain a page that was not sent."""
_ABOUT = ("job", "node", "kind")


class Wanted(NamedTuple):
    """A requested silence: job, node and kind (empty: any), reason, author, and duration."""

    job: str
    node: str
    kind: str
    why: str
    by: str
    seconds: float
    alertmanager: str = ""


class Silence(NamedTuple):
    """A silence, times in Unix seconds; `expired_by` ended it early, else empty."""

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
        """Return whether an incident's document matches all that the silence names."""
        named = [key for key in _ABOUT if getattr(self, key)]
        return bool(named) and all(incident.get(key) == getattr(self, key) for key in named)

    def words(self) -> str:
        """Return the silence's scope in words."""
        named = [f"{key} {getattr(self, key)}" for key in _ABOUT if getattr(self, key)]
        return ", ".join(named)


class Silences:
    """The silences in a store; they begin and end by the database's clock."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    def add(self, wanted: Wanted) -> Silence:
        """Write a silence that begins now.

        Raises:
            StoreError: the maximum number of silences is in force.
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
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
        """End a silence now and record the author.

        An ended silence stays unchanged. Returns None if the silence does not exist.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        with writing(self._engine) as connection:
            now = self._now(connection)
            has_id = silence.c.id == identity
            change = sa.update(silence).where(has_id, silence.c.until_ns > now)
            connection.execute(change.values(until_ns=now, expired_by=author))
            row = connection.execute(sa.select(silence).where(has_id)).mappings().first()
        return None if row is None else _silence(row)

    def get(self, identity: str) -> Silence | None:
        """Return a silence by id, also an ended one; None if it does not exist."""
        silences = self._read(silence.c.id == identity)
        return silences[0] if silences else None

    def in_force(self) -> list[Silence]:
        """Return the active silences, newest first."""
        with self._engine.connect() as connection:
            now = self._now(connection)
        return self._read(silence.c.until_ns > now)

    def oldest_seconds(self) -> float:
        """Return the age of the oldest active silence, 0 without any."""
        with self._engine.connect() as connection:
            now = self._now(connection)
            oldest = sa.select(sa.func.min(silence.c.since_ns)).where(silence.c.until_ns > now)
            since = connection.execute(oldest).scalar_one()
        return 0.0 if since is None else max(now - since, 0) / NANOSECONDS

    def between(self, from_s: float, until_s: float) -> list[Silence]:
        """Return the silences active at any time in a range (Unix seconds), newest first."""
        began = silence.c.since_ns <= int(until_s * NANOSECONDS)
        return self._read(began, silence.c.until_ns > int(from_s * NANOSECONDS))

    def _read(self, *conditions: sa.ColumnElement[bool]) -> list[Silence]:
        query = sa.select(silence).where(*conditions)
        query = query.order_by(silence.c.since_ns.desc(), silence.c.id).limit(MOST_IN_FORCE)
        with self._engine.connect() as connection:
            return [_silence(row) for row in connection.execute(query).mappings()]


def covering(silences: Iterable[Silence], incident: Mapping[str, Any]) -> Silence | None:
    """Return the silence that covers an incident for the longest time, or None."""
    matches = [candidate for candidate in silences if candidate.covers(incident)]
    return max(matches, key=lambda candidate: candidate.until, default=None)


def _silence(row: Mapping[Any, Any]) -> Silence:
    fields = {name: row[name] for name in ("id", *_ABOUT, "why", "expired_by", "alertmanager")}
    since, until = row["since_ns"] / NANOSECONDS, row["until_ns"] / NANOSECONDS
    return Silence(**fields, by=row["written_by"], since=since, until=until)
