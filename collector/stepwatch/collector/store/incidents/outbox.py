"""Outbox for notices: written with the evaluation and kept until delivery.

If a collector dies between sending a notice and recording that, the notice is delivered twice;
receivers deduplicate by its key.
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
"""Why a notice is given up.

Refused: its receiver refused it. Unanswered: no try succeeded. Unsent: no collector tried for a
day. Over: its incident ended before a report that was an hour late or more. Silenced: its incident
ended before the silence did. Acknowledged: the incident is acknowledged.
"""
WHYS = (REFUSED, UNANSWERED, UNSENT, OVER, SILENCED, ACKNOWLEDGED)
GIVEN_UP = "given_up"
"""Key in the document for the reason why the notice was given up."""
HELD = "held_by_silence"
"""Key in the document that marks a notice as held by a silence."""
CLAIMED_SECONDS = 15.0
"""Time a collector has to send its claimed notices before another collector may try.

After a collector is killed, its claimed notices are late by this time.
"""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 2.0, 60.0
"""Delay between two tries; it doubles."""
KEPT_SECONDS = 24 * 3600.0
"""Retention for delivered and given up notices, for inspection; also the limit for tries."""
MAX_TRIES = 1445
"""About `KEPT_SECONDS` worth of tries."""


class Notice(NamedTuple):
    """One message to send.

    `job` is the job concerned, `document` the JSON that is sent, `receiver` the receiver's name.
    `incident` and `transition` identify the event.
    """

    key: str
    job: str
    document: dict[str, Any]
    receiver: str
    incident: str = ""
    transition: str = ""


class Claimed(NamedTuple):
    """A notice that this collector must send now.

    `tries` includes the current try, `age_seconds` counts from the event, and `silenced` tells
    whether a silence held the notice.
    """

    key: str
    document: dict[str, Any]
    tries: int
    age_seconds: float
    incident: str = ""
    silenced: bool = False


def add_notices(
    connection: sa.Connection, notices: Iterable[Notice], now: Now = database_ns
) -> None:
    """Write notices in the connection's transaction; a notice with a stored key is skipped."""
    rows = [{**notice._asdict(), "state": PENDING, "tries": 0, "due_ns": 0} for notice in notices]
    if rows:
        due = now(connection)
        new = insert(connection.dialect, schema.outbox).on_conflict_do_nothing()
        connection.execute(new, [{**row, "due_ns": due} for row in rows])


class Outbox:
    """The notice table; several collectors may send from it at the same time."""

    def __init__(self, engine: sa.Engine, now: Now = database_ns) -> None:
        self._engine = engine
        self._now = now

    @property
    def engine(self) -> sa.Engine:
        """The database, for related tables."""
        return self._engine

    @property
    def clock(self) -> Now:
        """The clock by which notices are due."""
        return self._now

    def claim(self, limit: int, receiver: str) -> list[Claimed]:
        """Claim a receiver's due notices, oldest first, for `CLAIMED_SECONDS`.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        table = schema.outbox
        with self._engine.connect() as connection:  # usually none is due
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
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the notice is sent again.
        """
        self._set(key, DELIVERED, 0.0)

    def not_delivered(self, claimed: Claimed, at_least: float = 0.0) -> None:
        """Schedule a retry with backoff, after at least `at_least` seconds, or give the notice up.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the notice is sent again.
        """
        if claimed.tries >= MAX_TRIES:
            self.give_up(claimed, UNANSWERED)
            return
        doubled = FIRST_RETRY_SECONDS * 2.0 ** min(claimed.tries - 1, 16)
        self._set(claimed.key, PENDING, max(min(doubled, LAST_RETRY_SECONDS), at_least))

    def put_off(self, claimed: Claimed, seconds: float, *, silenced: bool = False) -> None:
        """Postpone a notice by some seconds; the claim does not count as a try.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the notice is due again
                later.
        """
        changes: dict[str, Any] = {"tries": claimed.tries - 1}
        if silenced and not claimed.silenced:
            changes["document"] = {**claimed.document, HELD: True}
        self._set(claimed.key, PENDING, seconds, **changes)

    def release(self, claimed: Iterable[Claimed]) -> None:
        """Release claimed notices that the sender had no time for; the claim is not a try.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the notices are due when
                their claim expires.
        """
        keys, table = [notice.key for notice in claimed], schema.outbox
        if not keys:
            return
        with writing(self._engine) as connection:
            pending = sa.and_(table.c.key.in_(keys), table.c.state == PENDING)
            change = sa.update(table).where(pending).values(tries=table.c.tries - 1)
            connection.execute(change.values(due_ns=self._now(connection)))

    def give_up(self, claimed: Claimed, why: str) -> None:
        """Give a notice up; `why` is one of the reasons above.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the notice is due again
                later.
        """
        self._set(claimed.key, FAILED, 0.0, document={**claimed.document, GIVEN_UP: why})

    def counts(self) -> dict[str, int]:
        """Return the number of notices by state."""
        table = schema.outbox
        query = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
        with self._engine.connect() as connection:
            counts = dict.fromkeys((PENDING, DELIVERED, FAILED), 0)
            return counts | {row[0]: int(row[1]) for row in connection.execute(query)}

    def given_up(self) -> dict[str, int]:
        """Return the number of given up notices by reason."""
        table = schema.outbox
        why = table.c.document[GIVEN_UP].as_string()
        query = sa.select(why, sa.func.count()).where(table.c.state == FAILED).group_by(why)
        with self._engine.connect() as connection:
            counts = {row[0]: int(row[1]) for row in connection.execute(query)}
        return {why: counts.get(why, 0) for why in WHYS}

    def oldest_seconds(self) -> dict[str, float]:
        """Return the age of the oldest waiting notice by receiver.

        Receivers without a waiting notice are absent; notices held by a silence do not wait.
        """
        table = schema.outbox
        oldest = sa.func.min(table.c.document["at"].as_float())
        waits = sa.and_(table.c.state == PENDING, table.c.document[HELD].as_string().is_(None))
        query = sa.select(table.c.receiver, oldest).where(waits).group_by(table.c.receiver)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
            now = self._now(connection) / NANOSECONDS
        return {receiver: max(now - float(happened_s), 0.0) for receiver, happened_s in rows}

    def prune(self) -> None:
        """Remove notices delivered or given up a day ago.

        Give up those that no collector tried for a day.

        Notices about an open incident stay: its end goes to the receivers that know about it.
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
