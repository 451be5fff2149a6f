"""PostgreSQL keeps the segments of a day in a partition of their own, made on demand."""

from __future__ import annotations

import sqlalchemy as sa

from stepwatch.collector.store.database import lock_tables
from stepwatch.collector.store.schema import DEFAULT_PARTITION

DAYS_BACK = 31
"""Days before today that get a partition; what is older, or of a clock ahead, is in the default."""
DAYS_AHEAD = 1


class Partitions:
    """Makes partitions of days (days since 1970) where the database is divided by them."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._known: set[int] = set()

    def make(self, days: set[int], today: int) -> None:
        """Make the partitions of these days that are not there, but those far from today.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        if self._engine.dialect.name != "postgresql":
            return
        near = {day for day in days if today - DAYS_BACK <= day <= today + DAYS_AHEAD}
        for day in sorted(near - self._known):
            with self._engine.begin() as connection:
                _make(connection, day)
            self._known.add(day)

    def names(self, connection: sa.Connection) -> dict[str, int | None]:
        """Partitions and their days; None for the one of all other days."""
        rows = connection.execute(_PARTITIONS)
        return {row.name: None if row.name == DEFAULT_PARTITION else _day(row.name) for row in rows}


_PARTITIONS = sa.text(
    "SELECT child.relname AS name FROM pg_inherits JOIN pg_class AS child ON inhrelid = child.oid "
    "WHERE inhparent = 'segment'::regclass ORDER BY child.relname"
)


def _day(name: str) -> int:
    return int(name.removeprefix("segment_day_"))


def _make(connection: sa.Connection, day: int) -> None:
    """Make the partition of a day; what the default one holds of that day moves into it."""
    lock_tables(connection)
    name = f"segment_day_{day}"
    if connection.execute(sa.select(sa.func.to_regclass(name))).scalar_one() is not None:
        return
    for statement in (
        f"LOCK TABLE {DEFAULT_PARTITION} IN ACCESS EXCLUSIVE MODE",
        f"CREATE TABLE {name} (LIKE segment INCLUDING CONSTRAINTS INCLUDING STORAGE)",
        f"WITH moved AS (DELETE FROM {DEFAULT_PARTITION} WHERE wall_day = {day} RETURNING *) "
        f"INSERT INTO {name} SELECT * FROM moved",
        f"ALTER TABLE segment ATTACH PARTITION {name} FOR VALUES FROM ({day}) TO ({day + 1})",
    ):
        connection.exec_driver_sql(statement)
