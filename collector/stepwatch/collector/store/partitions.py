"""PostgreSQL partitions segments by day; partitions are created on demand."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import sqlalchemy as sa

from stepwatch.collector.store.database import lock_tables, lock_unavailable
from stepwatch.collector.store.schema import DAY_NS, DEFAULT_PARTITION, job

DAYS_BACK = 31
"""Number of past days with a partition; older days, and days ahead, use the default partition."""
DAYS_AHEAD = 1
_DAY = "segment_day_"
LOCK_PATIENCE_MS = 1000
"""Maximum time that a change waits for the table lock; later statements wait behind it."""
POSTPONED_S = 60.0
"""Delay before the next try after a lock timeout."""


class Partitions:
    """Creates day partitions (days since 1970) where the table is partitioned."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._made_days: set[int] = set()
        self._postponed: dict[int, float] = {}
        """Days whose partition waits for readers, and the time of the next try (monotonic)."""

    def make(self, days: set[int], today: int) -> None:
        """Create the missing partitions among `days`, except those far from today.

        During a long read, such as a backup, a new day's segments go into the default partition;
        they move once the day's partition exists.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        if self._engine.dialect.name != "postgresql":
            return
        near = {day for day in days if today - DAYS_BACK <= day <= today + DAYS_AHEAD}
        for day in sorted(near - self._made_days):
            if time.monotonic() < self._postponed.get(day, 0.0):
                continue
            if _unless_locked(self._engine, partial(_make, day=day)):
                self._made_days.add(day)
            else:
                self._postponed[day] = time.monotonic() + POSTPONED_S


def _unless_locked(engine: sa.Engine, change: Callable[[sa.Connection], bool]) -> bool:
    """Run a partition change; return its result, or False after a lock timeout."""
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_PATIENCE_MS}")
            lock_tables(connection)
            return change(connection)
    except sa.exc.OperationalError as error:
        if not lock_unavailable(error):
            raise
        return False


_PARTITIONS = sa.text(
    "SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON inhrelid = child.oid "
    "WHERE inhparent = 'segment'::regclass ORDER BY child.relname"
)


def drop_days(engine: sa.Engine, may_go: sa.ColumnElement[bool], before_ns: int) -> list[int]:
    """Drop the days before `before_ns` whose segments all belong to removable jobs.

    `may_go` is a condition on rows in the job table. A day with a writer for longer than
    `LOCK_PATIENCE_MS` stays until the next time. Returns the dropped days.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
    """
    with engine.connect() as connection:
        names = [str(row.name) for row in connection.execute(_PARTITIONS)]
    days = {name: int(name.removeprefix(_DAY)) for name in names if name.startswith(_DAY)}
    old = {name: day for name, day in days.items() if day < before_ns // DAY_NS}
    return [day for name, day in old.items() if _drop_if_free(engine, name, may_go)]


def _drop_if_free(engine: sa.Engine, name: str, may_go: sa.ColumnElement[bool]) -> bool:
    partition = sa.table(name, sa.column("job"))
    goes = sa.exists().where(job.c.name == partition.c.job, may_go)
    needed = sa.select(partition.c.job).where(~goes).limit(1)
    with engine.connect() as connection:  # most days stay, and checking them takes no lock
        if connection.execute(needed).first() is not None:
            return False

    def drop(connection: sa.Connection) -> bool:
        connection.exec_driver_sql("LOCK TABLE ONLY segment IN ACCESS EXCLUSIVE MODE")
        if connection.execute(needed).first() is not None:
            return False
        connection.exec_driver_sql(f"DROP TABLE {name}")
        return True

    return _unless_locked(engine, drop)


def _make(connection: sa.Connection, day: int) -> bool:
    """Create a day's partition, and move that day's rows from the default partition into it."""
    name = f"{_DAY}{day}"
    if connection.execute(sa.select(sa.func.to_regclass(name))).scalar_one() is not None:
        return True
    for statement in (
        f"LOCK TABLE {DEFAULT_PARTITION} IN ACCESS EXCLUSIVE MODE",
        f"CREATE TABLE {name} (LIKE segment INCLUDING CONSTRAINTS INCLUDING STORAGE)",
        f"WITH moved AS (DELETE FROM {DEFAULT_PARTITION} WHERE wall_day = {day} RETURNING *) "
        f"INSERT INTO {name} SELECT * FROM moved",
        f"ALTER TABLE segment ATTACH PARTITION {name} FOR VALUES FROM ({day}) TO ({day + 1})",
    ):
        connection.exec_driver_sql(statement)
    return True
