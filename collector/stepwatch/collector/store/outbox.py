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
SILENCED, ACKNOWLEDGED = "silenced", "acknowledged"
"""Why a notice is given up: its receiver refused it; it took it in no try; nobody tried for a day;
its incident was over before it could be reported, an hour late or more; it was over before a
silence was; somebody works on it already."""
WHYS = (REFUSED, UNANSWERED, UNSENT, OVER, SILENCED, ACKNOWLEDGED)
GIVEN_UP = "given_up"
"""Where the document of a notice that is given up says why."""
HELD = "held_by_silence"
"""Where the document of a notice says that a silence held it."""
CLAIMED_SECONDS = 15.0
"""How long one collector has to send what it claimed before another may try: what a collector that
is killed had claimed is sent so much later."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 2.0, 60.0
"""Between two tries; it doubles."""
KEPT_SECONDS = 24 * 3600.0
"""What is delivered or given up stays so long, to be looked at; no try is made after so long."""
MAX_TRIES = 1445
"""About `KEPT_SECONDS` of tries."""


class Notice(NamedTuple):
    """One thing to send: its key, the job it is about, the JSON that is sent, to whom (empty: the
    URL of `--notify-url`), and which transition of which incident it is."""

    key: str
    job: str
    document: dict[str, Any]
    receiver: str = ""
    incident: str = ""
    transition: str = ""


class Claimed(NamedTuple):
    """A notice that this collector is to send now, how often that was tried, this included, the
    seconds since it happened, the incident, and whether a silence held it."""

    key: str
    document: dict[str, Any]
    tries: int
    age_seconds: float
    incident: str = ""
    silenced: bool = False


def add_notices(
    connection: sa.Connection, notices: Iterable[Notice], now: Now = database_ns
) -> None:
    """Write notices in the connection's transaction; one with a known key is there already."""
    rows = [{**notice._asdict(), "state": PENDING, "tries": 0, "due_ns": 0} for notice in notices]
    if rows:
        due = now(connection)
        new = insert(connection.dialect, schema.outbox).on_conflict_do_nothing()
        connection.execute(new, [{**row, "due_ns": due} for row in rows])


class Outbox:
    """The table of notices; several collectors may send from it at the same time."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    @property
    def engine(self) -> sa.Engine:
        """The database, for what is read beside the outbox."""
        return self._engine

    @property
    def clock(self) -> Now:
        """The clock by which notices are due."""
        return self._now

    def claim(self, limit: int, receiver: str = "") -> list[Claimed]:
        """Notices to a receiver that are due, oldest first; nobody else gets them for
        `CLAIMED_SECONDS`.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        table = schema.outbox
        with self._engine.connect() as connection:  # mostly there is nothing
            if connection.execute(self._due(connection, receiver).limit(1)).first() is None:
                return []
        with writing(self._engine) as connection:
            due = self._due(connection, receiver).order_by(table.c.due_ns, table.c.key).limit(limit)
            due = due.with_for_update(skip_locked=True)
            now = self._now(connection)
            until = now + int(CLAIMED_SECONDS * NANOSECONDS)
            change = sa.update(table).where(table.c.key.in_(due.scalar_subquery()))
            change = change.values(tries=table.c.tries + 1, due_ns=until)
            columns = (table.c[name] for name in ("key", "document", "tries", "incident"))
            rows = connection.execute(change.returning(*columns)).all()
        claimed = [_claimed(row, now / NANOSECONDS) for row in rows]
        return sorted(claimed, key=lambda notice: (notice.document["at"], notice.key))

    def delivered(self, key: str) -> None:
        """Mark a notice as delivered.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is sent again.
        """
        self._set(key, DELIVERED, 0.0)

    def not_delivered(self, claimed: Claimed, at_least: float = 0.0) -> None:
        """Try a notice again later, a little longer each time and after `at_least` seconds, or give
        it up.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is sent again.
        """
        if claimed.tries >= MAX_TRIES:
            self.give_up(claimed, UNANSWERED)
            return
        doubled = FIRST_RETRY_SECONDS * 2.0 ** min(claimed.tries - 1, 16)
        self._set(claimed.key, PENDING, max(min(doubled, LAST_RETRY_SECONDS), at_least))

    def put_off(self, claimed: Claimed, seconds: float, *, silenced: bool = False) -> None:
        """Look at a notice again after some seconds; that it was claimed counts as no try.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is looked at again.
        """
        changes: dict[str, Any] = {"tries": claimed.tries - 1}
        if silenced and not claimed.silenced:
            changes["document"] = {**claimed.document, HELD: True}
        self._set(claimed.key, PENDING, seconds, **changes)

    def release(self, claimed: Iterable[Claimed]) -> None:
        """Let anybody claim notices that there was no time to send; that counts as no try.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; they are due after their claim.
        """
        keys, table = [notice.key for notice in claimed], schema.outbox
        if not keys:
            return
        with writing(self._engine) as connection:
            pending = sa.and_(table.c.key.in_(keys), table.c.state == PENDING)
            change = sa.update(table).where(pending).values(tries=table.c.tries - 1)
            connection.execute(change.values(due_ns=self._now(connection)))

    def give_up(self, claimed: Claimed, why: str) -> None:
        """A notice is never sent; `why` is one of the reasons above.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it is looked at again.
        """
        self._set(claimed.key, FAILED, 0.0, document={**claimed.document, GIVEN_UP: why})

    def counts(self) -> dict[str, int]:
        """Notices by state."""
        table = schema.outbox
        query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
        with self._engine.connect() as connection:
            counts = dict.fromkeys((PENDING, DELIVERED, FAILED), 0)
            return counts | {row[0]: int(row[1]) for row in connection.execute(query)}

    def given_up(self) -> dict[str, int]:
        """Notices that are never sent, by why."""
        table = schema.outbox
        why = table.c.document[GIVEN_UP].as_string()
        query = sa.select(why, sa.func.count()).where(table.c.state == FAILED).group_by(why)
        with self._engine.connect() as connection:
            counts = {row[0]: int(row[1]) for row in connection.execute(query)}
        return {why: counts.get(why, 0) for why in WHYS}

    def oldest_seconds(self) -> dict[str, float]:
        """How long ago the oldest notice happened that waits, by receiver, where any does; those
        that a silence holds do not wait."""
        table = schema.outbox
        oldest = sa.func.min(table.c.document["at"].as_float())
        waits = sa.and_(table.c.state == PENDING, table.c.document[HELD].as_string().is_(None))
        query = sa.select(table.c.receiver, oldest).where(waits).group_by(table.c.receiver)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
            now = self._now(connection) / NANOSECONDS
        return {receiver: max(now - float(happened_s), 0.0) for receiver, happened_s in rows}

    def prune(self) -> None:
        """Remove what was delivered or given up a day ago; give up what nobody tried for a day.

        What was said of an incident that is open stays: its end goes to whoever knows of it.
        """
        table, incident = schema.outbox, schema.incident
        is_open = sa.exists().where(incident.c.id == table.c.incident, incident.c.state == "open")
        with writing(self._engine) as connection:
            now = self._now(connection)
            old = table.c.due_ns < now - int(KEPT_SECONDS * NANOSECONDS)
            connection.execute(sa.delete(table).where(table.c.state != PENDING, old, ~is_open))
            unsent = sa.select(table.c.key, table.c.document).where(table.c.state == PENDING, old)
            unsent = unsent.order_by(table.c.key).with_for_update(skip_locked=True)
            for key, document in connection.execute(unsent).all():
                values = {"document": {**document, GIVEN_UP: UNSENT}, "due_ns": now}
                change = sa.update(table).where(table.c.key == key).values(state=FAILED, **values)
                connection.execute(change)

    def _due(self, connection: sa.Connection, receiver: str) -> sa.Select[tuple[str]]:
        table = schema.outbox
        due = sa.and_(table.c.state == PENDING, table.c.due_ns <= self._now(connection))
        return sa.select(table.c.key).where(due, table.c.receiver == receiver)

    def _set(self, key: str, state: str, after_seconds: float, **columns: Any) -> None:
        table = schema.outbox
        with writing(self._engine) as connection:
            due = self._now(connection) + int(after_seconds * NANOSECONDS)
            change = sa.update(table).where(table.c.key == key, table.c.state == PENDING)
            connection.execute(change.values(state=state, due_ns=due, **columns))


def _claimed(row: sa.Row[Any], now: float) -> Claimed:
    document = {name: value for name, value in row.document.items() if name != HELD}
    is_silenced = HELD in row.document
    return Claimed(row.key, document, row.tries, now - document["at"], row.incident, is_silenced)
