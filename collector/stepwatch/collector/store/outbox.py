"""What is to be sent to somebody: written with the evaluation, and kept until it is delivered.

A notice may be delivered twice, where a collector dies between sending it and noting that; its key
tells its receiver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert, writing
from stepwatch.collector.store.leases import Now, database_ns
from stepwatch.signals.clock import NANOSECONDS

PENDING, DELIVERED, FAILED = "pending", "delivered", "failed"
REFUSED, UNANSWERED, UNSENT, OVER = "refused", "unanswered", "unsent", "over"
"""Why a notice is given up: its receiver refused it; it took it in no try; nobody tried for a day;
its incident was over before it could be sent, an hour late or more."""
GIVEN_UP = "given_up"
"""Where the document of a notice that is given up says why."""
CLAIMED_SECONDS = 60.0
"""How long one collector has to send what it claimed before another may try."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 2.0, 300.0
"""Between two tries; it doubles."""
KEPT_SECONDS = 24 * 3600.0
"""What is delivered or given up stays so long, to be looked at; no try is made after so long."""
MAX_TRIES = 290
"""About `KEPT_SECONDS` of tries."""


class Notice(NamedTuple):
    """One thing to send: its key, the job it is about, and the JSON that is sent."""

    key: str
    job: str
    document: dict[str, Any]


class Claimed(NamedTuple):
    """A notice that this collector is to send now, how often that was tried, this included, and
    the seconds since it happened."""

    key: str
    document: dict[str, Any]
    tries: int
    age_seconds: float


def add_notices(
    connection: sa.Connection, notices: Iterable[Notice], now: Now = database_ns
) -> None:
    """Write notices in the connection's transaction; one with a known key is there already."""
    rows = [{**each._asdict(), "state": PENDING, "tries": 0, "due_ns": 0} for each in notices]
    if rows:
        due = now(connection)
        new = insert(connection.dialect, schema.outbox).on_conflict_do_nothing()
        connection.execute(new, [{**row, "due_ns": due} for row in rows])


class Outbox:
    """The table of notices; several collectors may send from it at the same time."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    def claim(self, limit: int) -> list[Claimed]:
        """Notices that are due, oldest first; nobody else gets them for `CLAIMED_SECONDS`.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        table = schema.outbox
        with self._engine.connect() as connection:  # mostly there is nothing
            if connection.execute(self._due(connection).limit(1)).first() is None:
                return []
        with writing(self._engine) as connection:
            due = self._due(connection).order_by(table.c.due_ns, table.c.key).limit(limit)
            due = due.with_for_update(skip_locked=True)
            now = self._now(connection)
            until = now + int(CLAIMED_SECONDS * NANOSECONDS)
            change = sa.update(table).where(table.c.key.in_(due.scalar_subquery()))
            change = change.values(tries=table.c.tries + 1, due_ns=until)
            change = change.returning(table.c.key, table.c.document, table.c.tries)
            rows = connection.execute(change).all()
        found = [
            Claimed(key, document, tries, now / NANOSECONDS - document["at"])
            for key, document, tries in rows
        ]
        return sorted(found, key=lambda each: (each.document["at"], each.key))

    def delivered(self, key: str) -> None:
        """Mark a notice as delivered.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is sent again.
        """
        self._set(key, DELIVERED, 0.0)

    def not_delivered(self, claimed: Claimed) -> None:
        """Try a notice again later, a little longer each time, or give it up.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is sent again.
        """
        if claimed.tries >= MAX_TRIES:
            self.give_up(claimed, UNANSWERED)
            return
        doubled = FIRST_RETRY_SECONDS * 2.0 ** min(claimed.tries - 1, 16)
        self._set(claimed.key, PENDING, min(doubled, LAST_RETRY_SECONDS))

    def give_up(self, claimed: Claimed, why: str) -> None:
        """A notice is never sent; `why` is one of the reasons above.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is looked at again.
        """
        self._set(claimed.key, FAILED, 0.0, document={**claimed.document, GIVEN_UP: why})

    def state_of(self, incident: str) -> str | None:
        """The state of an incident by its id; None where it is not stored any more."""
        query = sa.select(schema.incident.c.state).where(schema.incident.c.id == incident)
        with self._engine.connect() as connection:
            return connection.execute(query).scalar_one_or_none()

    def counts(self) -> dict[str, int]:
        """Notices by state."""
        table = schema.outbox
        query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
        with self._engine.connect() as connection:
            found = dict.fromkeys((PENDING, DELIVERED, FAILED), 0)
            return found | {row[0]: int(row[1]) for row in connection.execute(query)}

    def given_up(self) -> dict[str, int]:
        """Notices that are never sent, by why."""
        table = schema.outbox
        why = table.c.document[GIVEN_UP].as_string()
        query = sa.select(why, sa.func.count()).where(table.c.state == FAILED).group_by(why)
        with self._engine.connect() as connection:
            found = {row[0]: int(row[1]) for row in connection.execute(query)}
        return {why: found.get(why, 0) for why in (REFUSED, UNANSWERED, UNSENT, OVER)}

    def prune(self) -> None:
        """Remove what was delivered or given up a day ago; give up what nobody tried for a day."""
        table = schema.outbox
        with writing(self._engine) as connection:
            now = self._now(connection)
            old = table.c.due_ns < now - int(KEPT_SECONDS * NANOSECONDS)
            connection.execute(sa.delete(table).where(table.c.state != PENDING, old))
            left = sa.select(table.c.key, table.c.document).where(table.c.state == PENDING, old)
            left = left.order_by(table.c.key).with_for_update(skip_locked=True)
            for key, document in connection.execute(left).all():
                values = {"document": {**document, GIVEN_UP: UNSENT}, "due_ns": now}
                change = sa.update(table).where(table.c.key == key).values(state=FAILED, **values)
                connection.execute(change)

    def _due(self, connection: sa.Connection) -> sa.Select[tuple[str]]:
        table = schema.outbox
        now = self._now(connection)
        return sa.select(table.c.key).where(table.c.state == PENDING, table.c.due_ns <= now)

    def _set(self, key: str, state: str, after_seconds: float, **others: Any) -> None:
        table = schema.outbox
        with writing(self._engine) as connection:
            due = self._now(connection) + int(after_seconds * NANOSECONDS)
            change = sa.update(table).where(table.c.key == key, table.c.state == PENDING)
            connection.execute(change.values(state=state, due_ns=due, **others))
