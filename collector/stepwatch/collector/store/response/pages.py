"""Notices already sent about incidents, for decisions on the next ones; and page storms."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import writing
from stepwatch.collector.store.incidents.outbox import (
    DELIVERED,
    GIVEN_UP,
    PENDING,
    Claimed,
    Notice,
    add_notices,
)
from stepwatch.collector.store.leases import Now, database_ns
from stepwatch.signals.clock import NANOSECONDS

_OPENED, _RESOLVED, _OPEN = "opened", "resolved", "open"
_NAMED = 10
"""Number of incidents named in a storm message."""
_AT_ONCE = 500
_SENT = (_OPENED, DELIVERED)
MOST_REPORTED = 1000
"""Maximum number of open incidents sent again to a receiver that lost them."""


class Related(NamedTuple):
    """A notice about an incident.

    `at` is the event's time (Unix seconds), `tries` the number of tries, `why` the reason for
    giving up, and `storm` the storm that summarises it.
    """

    key: str
    transition: str
    at: float
    state: str
    tries: int
    why: str
    storm: str


class Pages:
    """Reads one receiver's outbox together with the incidents."""

    def __init__(self, engine: sa.Engine, receiver: str, now: Now = database_ns) -> None:
        self._engine = engine
        self._receiver = receiver
        self._now = now

    def now(self) -> float:
        """Return the database's clock in Unix seconds."""
        with self._engine.connect() as connection:
            return self._now(connection) / NANOSECONDS

    def states(self, incidents: Collection[str]) -> dict[str, str]:
        """Return the state of each stored incident."""
        table = schema.incident
        query = sa.select(table.c.id, table.c.state).where(table.c.id.in_(sorted(incidents)))
        with self._engine.connect() as connection:
            return {row.id: row.state for row in connection.execute(query)}

    def related(self, incidents: Collection[str]) -> dict[str, list[Related]]:
        """Return this receiver's notices by incident."""
        table = schema.outbox
        columns = (table.c[name] for name in ("key", "transition", "state", "tries", "storm"))
        happened_s = table.c.document["at"].as_float().label("at")
        why = table.c.document[GIVEN_UP].as_string().label("why")
        query = sa.select(table.c.incident, happened_s, why, *columns)
        query = query.where(table.c.receiver == self._receiver)
        notices: dict[str, list[Related]] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(query.where(table.c.incident.in_(sorted(incidents)))):
                fields = {name: getattr(row, name) for name in Related._fields}
                notice = Related(**{**fields, "why": row.why or ""})
                notices.setdefault(row.incident, []).append(notice)
        return notices

    def sent_since(self, seconds: float) -> tuple[int, bool]:
        """Return the count of opening pages in the last `seconds`, and whether a storm began."""
        table = schema.outbox
        with self._engine.connect() as connection:
            since = self._now(connection) - int(seconds * NANOSECONDS)
            beginnings = sa.and_(table.c.receiver == self._receiver, table.c.transition == _OPENED)
            sent = sa.select(sa.func.count()).where(
                beginnings, table.c.state == DELIVERED, table.c.storm == "", table.c.due_ns > since
            )
            is_storm = table.c.key.like("storm:%")
            happened_s = table.c.document["at"].as_float()
            began = sa.select(table.c.key).where(
                beginnings, is_storm, happened_s > since / NANOSECONDS
            )
            storm = connection.execute(began.limit(1)).first() is not None
            return int(connection.execute(sent).scalar_one()), storm

    def reported_open(self) -> list[dict[str, Any]]:
        """Return the documents of open incidents that this receiver knows as open, newest first.

        The receiver got the beginning and not the end. At most `MOST_REPORTED`.
        """
        table, incident = schema.outbox, schema.incident
        query = sa.select(table.c.incident, table.c.transition, table.c.state, table.c.document)
        query = query.join(incident, incident.c.id == table.c.incident)
        query = query.where(incident.c.state == _OPEN, table.c.receiver == self._receiver)
        query = query.order_by(table.c.document["at"].as_float().desc()).limit(2 * MOST_REPORTED)
        newest: dict[str, Any] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(query):
                newest.setdefault(row.incident, row)
        sent = [row for row in newest.values() if (row.transition, row.state) == _SENT]
        return [row.document for row in sent][:MOST_REPORTED]

    def begin_storm(self, members: Sequence[Claimed]) -> None:
        """Replace the notices in `members` with one summary notice.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; all of them are due again
                later.
        """
        identity, table = uuid.uuid4().hex[:12], schema.outbox
        keys = [claimed.key for claimed in members]
        with writing(self._engine) as connection:
            now = self._now(connection)
            incident = _storm_incident(identity, _storm_words(members), now / NANOSECONDS)
            add_notices(connection, [self._notice(incident, _OPENED, now)], self._now)
            for start in range(0, len(keys), _AT_ONCE):
                in_chunk = table.c.key.in_(keys[start : start + _AT_ONCE])
                change = sa.update(table).where(in_chunk, table.c.state == PENDING)
                connection.execute(change.values(state=DELIVERED, storm=identity, due_ns=now))

    def end_of(self, storm: str) -> None:
        """Send a storm's end once all its incidents have ended; once.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was written.
        """
        table, incident = schema.outbox, schema.incident
        of_storm = sa.and_(table.c.storm == storm, table.c.transition == _OPENED)
        still = sa.select(incident.c.id).join(table, table.c.incident == incident.c.id)
        with writing(self._engine) as connection:
            if connection.execute(still.where(of_storm, incident.c.state == _OPEN)).first() is None:
                now = self._now(connection)
                words = "all incidents of the storm are over"
                over = _storm_incident(storm, words, now / NANOSECONDS)
                add_notices(connection, [self._notice(over, _RESOLVED, now)], self._now)

    def _notice(self, incident: dict[str, Any], transition: str, now_ns: int) -> Notice:
        # Without a time in the key: a storm has one end, even if several collectors see it.
        key = f"storm:{incident['id']}:{transition}:{self._receiver}"
        document = {"key": key, "transition": transition, "at": now_ns / NANOSECONDS}
        document["incident"] = incident
        return Notice(key, "", document, self._receiver, incident["id"], transition)


def _storm_words(members: Sequence[Claimed]) -> str:
    incidents = [claimed.document["incident"] for claimed in members]
    jobs = sorted({incident["job"] for incident in incidents})
    kinds = sorted({incident["kind"] for incident in incidents})
    named = "; ".join(
        f"{incident['job']}: {incident['kind']} {incident['id']}" for incident in incidents[:_NAMED]
    )
    more = f"; and {len(incidents) - _NAMED} more" if len(incidents) > _NAMED else ""
    return (
        f"storm: {len(incidents)} incidents in {len(jobs)} jobs ({', '.join(kinds)}): {named}{more}"
    )


def _storm_incident(identity: str, summary: str, opened_at: float) -> dict[str, Any]:
    """Return a storm in the form of an incident, as receivers expect it."""
    blank = dict.fromkeys(("job", "node", "kind", "cause", "confidence", "runbook"), "")
    return {**blank, "id": identity, "summary": summary, "opened_at": opened_at}
