"""Leases with epochs: which collector evaluates which job, by the database's clock.

A lease is live for `LEASE_SECONDS` after its renewal. Each claim raises the epoch, so a former
holder's write differs from the current holder's: every evaluation write checks holder and epoch in
its own transaction (`fenced`).

On PostgreSQL a write locks its lease's row with `FOR KEY SHARE`. That blocks claims (`FOR UPDATE`)
and allows the holder's renewals (`FOR NO KEY UPDATE`), however long the write takes. A transaction
that locks several rows and may wait locks them ordered by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import (
    begin_writing,
    insert,
    no_wait_for_disk,
    writer_lock,
    writing,
)
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import LeaseLostError

LEASE_SECONDS = 6.0
"""A collector without a renewal for this long loses its jobs to the next claim."""
TAKEN_UP_WITHIN_SECONDS = 24 * 3600.0
"""Orphaned jobs are taken up if they wrote within a day."""
_LEASE_NS = int(LEASE_SECONDS * NANOSECONDS)
_NAMES_AT_ONCE = 500
_RENEWED_AT_ONCE = 100
"""Number of leases renewed per transaction."""

Now = Callable[[sa.Connection], int]
"""Reads the clock for leases, in wall nanoseconds."""


class Lease(NamedTuple):
    """The right to evaluate a job."""

    job: str
    holder: str
    epoch: int


def database_ns(connection: sa.Connection) -> int:
    """Return the database's clock in wall nanoseconds."""
    if connection.dialect.name == "postgresql":
        text = "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS bigint)"
    else:
        text = "CAST((julianday('now') - 2440587.5) * 86400000000000 AS integer)"
    return int(connection.execute(sa.select(sa.literal_column(text))).scalar_one())


def check(connection: sa.Connection, lease: Lease) -> None:
    """Block claims on a lease until the connection's transaction ends.

    Raises:
        LeaseLostError: another collector claimed the lease.
    """
    table = schema.lease
    query = sa.select(table.c.epoch).where(
        table.c.job == lease.job, table.c.holder == lease.holder, table.c.epoch == lease.epoch
    )
    if connection.execute(query.with_for_update(read=True, key_share=True)).first() is None:
        raise LeaseLostError(f"{lease.job} is evaluated by another collector")


def still_held(connection: sa.Connection, leases: Collection[Lease]) -> set[str]:
    """Return the jobs whose lease is still valid; claims are blocked until the transaction ends."""
    table = schema.lease
    leases_by_job = {lease.job: lease for lease in leases}
    query = sa.select(table.c.job, table.c.holder, table.c.epoch).where(
        table.c.job.in_(leases_by_job)
    )
    query = query.order_by(table.c.job).with_for_update(read=True, key_share=True)
    rows = connection.execute(query)
    return {row.job for row in rows if Lease(*row) == leases_by_job[row.job]}


@contextmanager
def fenced(
    engine: sa.Engine, lease: Lease | None, *, waits: bool = True
) -> Iterator[sa.Connection]:
    """Open a transaction that checks `lease` first; None means that no other collector exists.

    Unless it `waits`, it may end before the disk has it; see `no_wait_for_disk`.

    Raises:
        LeaseLostError: another collector claimed the lease; nothing is written.
    """
    with writer_lock(engine), ExitStack() as ends:
        connection = ends.enter_context(engine.connect())
        if not waits:
            ends.enter_context(no_wait_for_disk(connection))
        ends.enter_context(connection.begin())
        if lease is not None:
            begin_writing(connection)
            check(connection, lease)
        yield connection


class Leases:
    """One holder's leases, and the data on other holders that sharing jobs needs."""

    def __init__(self, engine: sa.Engine, holder: str, now: Now = database_ns) -> None:
        self.holder = holder
        self._engine = engine
        self._now = now

    def beat(self) -> list[str]:
        """Record that this holder is alive, and return the other live holders.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
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
            # Two holders that return at the same time would wait for each other's row.
            expired_holders = sa.select(table.c.holder).where(~_is_live(table, now))
            expired_holders = expired_holders.with_for_update(skip_locked=True)
            connection.execute(
                sa.delete(table).where(table.c.holder.in_(expired_holders.scalar_subquery()))
            )
            other_holders = sa.select(table.c.holder).where(table.c.holder != self.holder)
            return [row.holder for row in connection.execute(other_holders)]

    def renew(self) -> dict[str, int]:
        """Renew this holder's leases, and return all its epochs by job.

        An expired lease is renewed, too, unless another holder claimed it. A lease whose row is
        locked waits for the next renewal.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
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
        """Renew the next batch after `previous_job`.

        Return the batch's last job, None at the end.
        """
        table = schema.lease
        few = self._select_own(table.c.job).where(table.c.job > previous_job).order_by(table.c.job)
        few = few.limit(_RENEWED_AT_ONCE).with_for_update(key_share=True, skip_locked=True)
        with writing(self._engine) as connection:
            names = list(connection.execute(few).scalars())
            # Read the clock after the lock: the wait for the lock may be long.
            until = self._now(connection) + _LEASE_NS
            change = sa.update(table).where(table.c.job.in_(names)).values(expires_ns=until)
            connection.execute(change)
        return names[-1] if len(names) == _RENEWED_AT_ONCE else None

    def claim(self, jobs: Collection[str]) -> dict[str, int]:
        """Claim the jobs without a live holder; return their epochs by job.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        epochs: dict[str, int] = {}
        names, table = sorted(jobs), schema.lease
        for start in range(0, len(names), _NAMES_AT_ONCE):
            few = names[start : start + _NAMES_AT_ONCE]
            rows = [{"job": name, "holder": "", "epoch": 0, "expires_ns": 0} for name in few]
            with writing(self._engine) as connection:
                new = insert(connection.dialect, table).on_conflict_do_nothing()
                connection.execute(new, rows)
                now = self._now(connection)  # after the wait for another holder's new rows
                chosen = sa.select(table.c.job).where(table.c.job.in_(few))
                epochs |= self._take(connection, chosen, now)
        return epochs

    def claim_free(self, limit: int) -> dict[str, int]:
        """Claim orphaned jobs, latest written first; return their epochs by job.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
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
        """Release leases; `wanted` tells whether other collectors should take the jobs up at once.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the leases expire.
        """
        table, names = schema.lease, sorted(jobs)
        values: dict[str, Any] = {"expires_ns": 0} | ({} if wanted else {"holder": ""})
        for start in range(0, len(names), _NAMES_AT_ONCE):
            few = table.c.job.in_(names[start : start + _NAMES_AT_ONCE])
            with writing(self._engine) as connection:
                _change(connection, sa.and_(few, table.c.holder == self.holder), values)

    def leave(self) -> None:
        """Release everything: this holder stops.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; the leases expire.
        """
        self.expire([self.holder])

    def expire(self, holders: Collection[str]) -> None:
        """Expire the leases that exited holders still have.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        with writing(self._engine) as connection:
            _change(connection, schema.lease.c.holder.in_(holders), {"expires_ns": 0})
            of_holders = schema.replica.c.holder.in_(holders)
            connection.execute(sa.delete(schema.replica).where(of_holders))

    def share(self, replicas: int) -> int:
        """Return one collector's fair share of the jobs among so many replicas."""
        table = schema.lease
        query = sa.select(sa.func.count()).select_from(table).where(table.c.holder != "")
        with self._engine.connect() as connection:
            return -(-int(connection.execute(query).scalar_one()) // max(replicas, 1))

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _take(self, connection: sa.Connection, chosen: sa.Select[Any], now: int) -> dict[str, int]:
        """Take over the chosen leases that are neither live nor locked."""
        table = schema.lease
        free = chosen.where(~_is_live(table, now))
        # A lease with a write in progress is skipped, not waited for.
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
        """Open a write transaction, and read the clock in it."""
        with writing(self._engine) as connection:
            yield connection, self._now(connection)


def _change(
    connection: sa.Connection, condition: sa.ColumnElement[bool], values: dict[str, Any]
) -> None:
    """Change leases; their rows are locked ordered by name."""
    table = schema.lease
    rows = sa.select(table.c.job).where(condition).order_by(table.c.job)
    names = list(connection.execute(rows.with_for_update(key_share=True)).scalars())
    for start in range(0, len(names), _NAMES_AT_ONCE):
        few = table.c.job.in_(names[start : start + _NAMES_AT_ONCE])
        connection.execute(sa.update(table).where(few).values(**values))


def _is_live(table: sa.Table, now: int) -> sa.ColumnElement[bool]:
    """Return the condition for a live lease.

    An expiry beyond one lease period dates from before the clock was set back, so it does not
    count.
    """
    return sa.and_(table.c.expires_ns > now, table.c.expires_ns <= now + _LEASE_NS)
