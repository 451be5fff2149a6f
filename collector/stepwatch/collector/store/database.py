"""The database of a store: opened, its tables made, its version checked; and its dialects."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import dml as postgresql_dml
from sqlalchemy.dialects.sqlite import dml as sqlite_dml

from stepwatch.collector.store import schema
from stepwatch.signals.errors import StoreError

SCHEMA_VERSION = "1"
REFUSALS = (sa.exc.StatementError, ArithmeticError, TypeError, ValueError)
"""What a database or its driver raises when it refuses a value, among other things."""
_SQLITE_PATIENCE_S = 5
"""How long a statement waits for another connection's lock."""
_CREATION_LOCK = 0x73746570
"""PostgreSQL's advisory lock while tables are made: "step" in ASCII."""


def open_database(url: str | sa.URL) -> sa.Engine:
    """Connect to the database at an SQLAlchemy URL, and make what it lacks.

    Raises:
        StoreError: it cannot be opened or was written by a newer stepwatch.
    """
    try:
        engine = sa.create_engine(url)
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _configure_sqlite)
        _create_tables(engine)
        _check_version(engine)
    except sa.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise StoreError(
            f"cannot open the store {_shown(url)}: {reason}; "
            "pass --store with a writable path, or an SQLAlchemy URL"
        ) from error
    return engine


def _create_tables(engine: sa.Engine) -> None:
    """Create tables, and the indexes that a store of an earlier stepwatch lacks.

    Both only add, so an earlier stepwatch still reads the store; its version stays. Whether
    one is there is asked by the statement that makes it, not before: another process that
    opens the same new store may make it in between.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Two of IF NOT EXISTS at once fail there on a unique index of the catalog.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
        for table in schema.metadata.sorted_tables:
            connection.execute(sa.schema.CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(sa.schema.CreateIndex(index, if_not_exists=True))


def _check_version(engine: sa.Engine) -> None:
    query = sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema")
    with engine.begin() as connection:
        found = connection.execute(query).scalar_one_or_none()
        if found is None:  # readers must not need the write lock
            statement = insert(engine.dialect, schema.meta).values(
                key="schema", value=SCHEMA_VERSION
            )
            connection.execute(statement.on_conflict_do_nothing())
            found = connection.execute(query).scalar_one()
    if found != SCHEMA_VERSION:
        raise StoreError(
            f"the store has schema {found}, this stepwatch reads {SCHEMA_VERSION}; "
            "use the stepwatch that wrote it, or another --store"
        )


def insert(dialect: sa.Dialect, table: sa.Table) -> sqlite_dml.Insert | postgresql_dml.Insert:
    """An insert of a dialect, which says what to do on a conflict."""
    if dialect.name == "sqlite":
        return sqlite_dml.insert(table)
    return postgresql_dml.insert(table)


def upsert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """Write a row; one with the same primary key is replaced."""
    keys = [column.name for column in table.primary_key]
    changed = {key: value for key, value in row.items() if key not in keys}
    statement = insert(connection.dialect, table).values(**row)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))


def refusal(error: BaseException) -> str | None:
    """Why the database will never take this value; None where it may when asked again."""
    refused = (sa.exc.DataError, sa.exc.IntegrityError, sa.exc.NotSupportedError)
    if isinstance(error, sa.exc.DBAPIError) and not isinstance(error, refused):
        return None
    reason = str(getattr(error, "orig", None) or error)
    return f"the database refuses it: {' '.join(reason.split())}"[:300]


def _shown(url: str | sa.URL) -> str:
    """The URL as a message may hold it: without its password."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return str(url)[:80]


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={_SQLITE_PATIENCE_S * 1000}")
    connection.execute("PRAGMA synchronous=FULL")
    deadline = time.monotonic() + _SQLITE_PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            # SQLite does not wait here, whatever the time-out, while another connection makes
            # the same change to the same new file.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
