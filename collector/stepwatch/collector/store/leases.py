"""Who evaluates which job: leases with epochs, by the database's clock.

A lease is live for `LEASE_SECONDS` from its renewal. Its epoch rises whenever somebody claims it,
so that what an earlier holder still writes differs from what the present one does: every write
of an evaluation checks holder and epoch in its own transaction (`fenced`).

On PostgreSQL a write holds its lease's row with `FOR KEY SHARE`: that keeps out who claims it
(`FOR UPDATE`), and lets its holder renew it meanwhile (`FOR NO KEY UPDATE`), however long the
write takes. Whoever needs several rows and may have to wait takes them in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import begin_writing, insert, writer_lock, writing
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import LeaseLostError

LEASE_SECONDS = 6.0
"""A collector that renews nothing for so long has lost its jobs to whoever claims them."""
TAKEN_UP_WITHIN_SECONDS = 24 * 3600.0
"""Jobs whose holder is gone are taken up if they wrote within a day."""
_LEASE_NS = int(LEASE_SECONDS * NANOSECONDS)
_NAMES_AT_ONCE = 500
_RENEWED_AT_ONCE = 100
"""Leases whose rows one transaction of a renewal holds."""

Now = Callable[[sa.Connection], int]
"""Reads the clock that leases go by, in wall nanoseconds."""


class Lease(NamedTuple):
    """The right to evaluate a job."""

    job: str
    holder: str
    epoch: int


def database_ns(connection: sa.Connection) -> int:
    """The database's clock."""
    if connection.dialect.name == "postgresql":
        text = "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS bigint)"
    else:
        text = "CAST((julianday('now') - 2440587.5) * 86400000000000 AS integer)"
    return int(connection.execute(sa.select(sa.literal_column(text))).scalar_one())


def check(connection: sa.Connection, lease: Lease) -> None:
    """Keep a lease from being claimed until the connection's transaction ends.

    Raises:
        LeaseLostError: somebody else claimed it.
    """
    table = schema.lease
    query = sa.select(table.c.epoch).where(
        table.c.job == lease.job, table.c.holder == lease.holder, table.c.epoch == lease.epoch
    )
    if connection.execute(query.with_for_update(read=True, key_share=True)).first() is None:
        raise LeaseLostError(f"{lease.job} is evaluated by another collector")


def still_held(connection: sa.Connection, leases: Collection[Lease]) -> set[str]:
    """Jobs whose lease nobody else claimed; no one does until the transaction ends."""
    table = schema.lease
    leases_by_job = {lease.job: lease for lease in leases}
    query = sa.select(table.c.job, table.c.holder, table.c.epoch).where(
        table.c.job.in_(leases_by_job)
    )
    query = query.order_by(table.c.job).with_for_update(read=True, key_share=True)
    rows = connection.execute(query)
    return {row.job for row in rows if Lease(*row) == leases_by_job[row.job]}


@contextmanager
def fenced(engine: sa.Engine, lease: Lease | None) -> Iterator[sa.Connection]:
    """A transaction in which `lease` is checked first; None is that of a collector without others.

    Raises:
        LeaseLostError: somebody else claimed it; nothing is written.
    """
    with writer_lock(engine), engine.begin() as connection:
        if lease is not None:
            begin_writing(connection)
            check(connection, lease)
        yield connection


class Leases:
    """The leases of one holder, and of the others what is needed to share jobs with them."""

    def __init__(self, engine: sa.Engine, holder: str, now: Now = database_ns) -> None:
        self.holder = holder
        self._engine = engine
        self._now = now

    def beat(self) -> list[str]:
        """Say that this holder lives; returns the others that do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        table = schema.replica
        with self._writing() as (connection, now):
            heartbeat = insert(connection.dialect, table).values(
                holder=self.holder, expires_ns=now + _LEASE_NS
            )
            renewed = {"expires_ns": now + _LEASE_NS}
            connection.execute(
                heartbeat.on_conflict_do_update(index_elements=["holder"], set_=renewed)
            )
            # Two that come back at once would wait for each other's row.
            expired_holders = sa.select(table.c.holder).where(~_is_live(table, now))
            expired_holders = expired_holders.with_for_update(skip_locked=True)
            connection.execute(
                sa.delete(table).where(table.c.holder.in_(expired_holders.scalar_subquery()))
            )
            other_holders = sa.select(table.c.holder).where(table.c.holder != self.holder)
            return [row.holder for row in connection.execute(other_holders)]

    def renew(self) -> dict[str, int]:
        """Renew the leases that are still of this holder; returns the epochs of all, by job.

        One that ran out is renewed, too, if nobody claimed it. One whose row is in use stays as it
        is until the next time.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        last: str | None = ""
        while last is not None:
            last = self._renew_some(last)
        table = schema.lease
        with self._engine.connect() as connection:
            rows = connection.execute(self._select_own(table.c.job, table.c.epoch))
            return {row.job: int(row.epoch) for row in rows}

    def _select_own(self, *columns: sa.Column[Any]) -> sa.Select[Any]:
        table = schema.lease
        return sa.select(*columns).where(table.c.holder == self.holder, table.c.expires_ns > 0)

    def _renew_some(self, previous_job: str) -> str | None:
        """Renew the next few behind a name; returns the last one's, None where no more follow."""
        table = schema.lease
        few = self._select_own(table.c.job).where(table.c.job > previous_job).order_by(table.c.job)
        few = few.limit(_RENEWED_AT_ONCE).with_for_update(key_share=True, skip_locked=True)
        with writing(self._engine) as connection:
            names = list(connection.execute(few).scalars())
            # Only now: what is read before a lock is held may be old by the time it is.
            until = self._now(connection) + _LEASE_NS
            change = sa.update(table).where(table.c.job.in_(names)).values(expires_ns=until)
            connection.execute(change)
        return names[-1] if len(names) == _RENEWED_AT_ONCE else None

    def claim(self, jobs: Collection[str]) -> dict[str, int]:
        """Claim those of the jobs that no live holder has; returns their epochs by job.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        epochs: dict[str, int] = {}
        names, table = sorted(jobs), schema.lease
        for start in range(0, len(names), _NAMES_AT_ONCE):
            few = names[start : start + _NAMES_AT_ONCE]
            rows = [{"job": name, "holder": "", "epoch": 0, "expires_ns": 0} for name in few]
            with writing(self._engine) as connection:
                new = insert(connection.dialect, table).on_conflict_do_nothing()
                connection.execute(new, rows)
                now = self._now(connection)  # another's new rows were waited for
                chosen = sa.select(table.c.job).where(table.c.job.in_(few))
                epochs |= self._take(connection, chosen, now)
        return epochs

    def claim_free(self, limit: int) -> dict[str, int]:
        """Claim jobs whose holder is gone, the newest written first; returns their epochs by job.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        table, jobs = schema.lease, schema.job
        with self._writing() as (connection, now):
            since = now - int(TAKEN_UP_WITHIN_SECONDS * NANOSECONDS)
            chosen = (
                sa.select(table.c.job)
                .join(jobs, jobs.c.name == table.c.job)
                .where(table.c.holder != "", jobs.c.last_received_ns > since)
                .order_by(jobs.c.last_received_ns.desc(), table.c.job)
                .limit(limit)
            )
            return self._take(connection, chosen, now)

    def release(self, jobs: Collection[str], *, wanted: bool = True) -> None:
        """Give leases back; `wanted` says whether others should take the jobs up at once.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; they run out by themselves.
        """
        table, names = schema.lease, sorted(jobs)
        values: dict[str, Any] = {"expires_ns": 0} | ({} if wanted else {"holder": ""})
        for start in range(0, len(names), _NAMES_AT_ONCE):
            few = table.c.job.in_(names[start : start + _NAMES_AT_ONCE])
            with writing(self._engine) as connection:
                _change(connection, sa.and_(few, table.c.holder == self.holder), values)

    def leave(self) -> None:
        """Give everything back: this holder stops.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone; it runs out by itself.
        """
        self.expire([self.holder])

    def expire(self, holders: Collection[str]) -> None:
        """Let the leases of holders that are known to be gone run out now.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        with writing(self._engine) as connection:
            _change(connection, schema.lease.c.holder.in_(holders), {"expires_ns": 0})
            of_holders = schema.replica.c.holder.in_(holders)
            connection.execute(sa.delete(schema.replica).where(of_holders))

    def share(self, replicas: int) -> int:
        """How many of the jobs that anybody should hold are the share of one of so many."""
        table = schema.lease
        query = sa.select(sa.func.count()).select_from(table).where(table.c.holder != "")
        with self._engine.connect() as connection:
            return -(-int(connection.execute(query).scalar_one()) // max(replicas, 1))

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _take(self, connection: sa.Connection, chosen: sa.Select[Any], now: int) -> dict[str, int]:
        """Become the holder of those chosen leases that are not live and not in use."""
        table = schema.lease
        free = chosen.where(~_is_live(table, now))
        # A lease that a write is just being checked against is skipped, not waited for.
        free = free.with_for_update(skip_locked=True, of=table)
        change = (
            sa.update(table)
            .where(table.c.job.in_(free.scalar_subquery()))
            .values(holder=self.holder, epoch=table.c.epoch + 1, expires_ns=now + _LEASE_NS)
            .returning(table.c.job, table.c.epoch)
        )
        return {row.job: int(row.epoch) for row in connection.execute(change)}

    @contextmanager
    def _writing(self) -> Iterator[tuple[sa.Connection, int]]:
        """A transaction, and the time in it."""
        with writing(self._engine) as connection:
            yield connection, self._now(connection)


def _change(
    connection: sa.Connection, condition: sa.ColumnElement[bool], values: dict[str, Any]
) -> None:
    """Change leases, whose rows are taken in the order of their names."""
    table = schema.lease
    rows = sa.select(table.c.job).where(condition).order_by(table.c.job)
    names = list(connection.execute(rows.with_for_update(key_share=True)).scalars())
    for start in range(0, len(names), _NAMES_AT_ONCE):
        few = table.c.job.in_(names[start : start + _NAMES_AT_ONCE])
        connection.execute(sa.update(table).where(few).values(**values))


def _is_live(table: sa.Table, now: int) -> sa.ColumnElement[bool]:
    """What would last longer than a lease does was written before the clock was set back."""
    return sa.and_(table.c.expires_ns > now, table.c.expires_ns <= now + _LEASE_NS)
