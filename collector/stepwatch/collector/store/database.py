"""Database access: opens a store, creates or upgrades its tables, and hides dialect differences."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import dml as postgresql_dml
from sqlalchemy.dialects.sqlite import dml as sqlite_dml

from stepwatch.collector.store import migrations, schema
from stepwatch.collector.store.outages.file_guard import guard_file
from stepwatch.collector.store.outages.outage import reason_of
from stepwatch.signals.errors import StoreError

logger = logging.getLogger(__name__)

SCHEMA_VERSION = migrations.SCHEMAS[-1]
REFUSALS = (sa.exc.StatementError, ArithmeticError, TypeError, ValueError)
"""Exceptions for a refused value; a database or driver also raises them for other reasons."""
_SQLITE_PATIENCE_S = 5
"""Maximum wait for another connection's lock."""
_writer_locks: dict[str, threading.Lock] = {}
_TABLES_LOCK = 0x73746570
"""PostgreSQL's advisory lock during table creation: "step" in ASCII."""
_POSTGRESQL_PATIENCE = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "options": "-c idle_in_transaction_session_timeout=10000 -c lock_timeout=5000 "
    "-c statement_timeout=300000",
}
"""Default libpq parameters, unless the URL sets them.

The client detects an unreachable server in about 10 s. The server ends the transaction and locks of
an unreachable client. A statement waits at most 5 s for another session's lock and runs for at most
five minutes; then the request is refused and its agent retries.
"""
_LOCK_NOT_AVAILABLE = "55P03"
_WITHOUT_LIMITS = ("SET LOCAL lock_timeout = 0", "SET LOCAL statement_timeout = 0")


def open_database(url: str | sa.URL) -> sa.Engine:
    """Connect to the database at an SQLAlchemy URL and create or upgrade its tables.

    Raises:
        StoreError: the database cannot be opened, or its schema is unknown.
    """
    engine = connect_to(url)
    try:
        with ExitStack() as failing:
            failing.callback(engine.dispose)
            _prepare_tables(engine)
            failing.pop_all()
    except sa.exc.SQLAlchemyError as error:
        raise _unopened(url, error) from error
    return engine


def connect_to(url: str | sa.URL) -> sa.Engine:
    """Connect to the database at an SQLAlchemy URL without changing its tables.

    Raises:
        StoreError: the URL is invalid, or its database type is not supported.
    """
    try:
        return _engine(sa.make_url(url))
    except sa.exc.SQLAlchemyError as error:
        raise _unopened(url, error) from error
    except ValueError as error:  # invalid port
        raise StoreError(
            f"{shown(url)} is not a URL of a store: {error}; pass another --store"
        ) from error
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the store {shown(url)} needs the module {error.name}; for PostgreSQL: "
            "pip install 'stepwatch[postgresql]', and --store postgresql+psycopg://..."
        ) from error


def _unopened(url: str | sa.URL, error: sa.exc.SQLAlchemyError) -> StoreError:
    return StoreError(
        f"cannot open the store {shown(url)}: {reason_of(error)}; "
        "pass --store with a writable path, or an SQLAlchemy URL"
    )


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"the store {shown(url)} is neither SQLite nor PostgreSQL; "
            "pass --store with a path, or postgresql+psycopg://USER@HOST/NAME"
        )
    if url.get_backend_name() == "postgresql":
        url = url.update_query_dict({**_POSTGRESQL_PATIENCE, **url.query})
    # A pre-ping replaces a connection that the server has closed.
    engine = sa.create_engine(url, pool_pre_ping=url.get_backend_name() != "sqlite")
    if engine.dialect.name == "sqlite":
        guard_file(engine)
        sa.event.listen(engine, "connect", _configure_sqlite)
    return engine


def _prepare_tables(engine: sa.Engine) -> None:
    with engine.connect() as connection:  # readers must not need the write lock
        if schema_of(connection) == SCHEMA_VERSION:
            return
    with engine.begin() as connection:
        without_time_limits(connection)
        lock_tables(connection)
        version = schema_of(connection)  # another process may have upgraded it meanwhile
        if version is None:
            _create_tables(connection)
        elif version == SCHEMA_VERSION:
            return
        elif version in migrations.SCHEMAS:
            began = time.monotonic()
            migrations.migrate(connection, SCHEMA_VERSION)
            seconds, place = time.monotonic() - began, shown(engine.url)
            logger.info(
                "upgraded the store %s from schema %s to %s in %.1f s",
                *(place, version, SCHEMA_VERSION, seconds),
            )
        else:
            raise StoreError(
                f"the store has schema {version}, this stepwatch reads {SCHEMA_VERSION}; "
                "use the stepwatch that wrote it, or another --store"
            )


def schema_of(connection: sa.Connection) -> str | None:
    """Return the tables' schema version, or None without tables."""
    if not sa.inspect(connection).has_table("meta"):
        return None
    query = sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema")
    return connection.execute(query).scalar_one_or_none()


def _create_tables(connection: sa.Connection) -> None:
    schema.metadata.create_all(connection)
    connection.execute(sa.insert(schema.meta).values(key="schema", value=SCHEMA_VERSION))
    connection.execute(sa.insert(schema.alembic_version).values(version_num=SCHEMA_VERSION))


def lock_tables(connection: sa.Connection) -> None:
    """Block other table changes until the connection's transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES_LOCK)))
    else:
        begin_writing(connection)


def without_time_limits(connection: sa.Connection) -> None:
    """Disable lock and statement timeouts for the connection's transaction.

    For migrations: a large table takes minutes, and no agent waits for the answer.
    """
    if connection.dialect.name == "postgresql":
        for statement in _WITHOUT_LIMITS:
            connection.exec_driver_sql(statement)


def begin_writing(connection: sa.Connection) -> None:
    """Take SQLite's write lock before the transaction's first statement.

    SQLite's driver begins a transaction only at the first insert, and never for tables or
    savepoints.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def hold_moment(connection: sa.Connection) -> None:
    """Give all statements on the connection one consistent snapshot from the first statement on."""
    if connection.dialect.name == "postgresql":
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    else:
        connection.exec_driver_sql("BEGIN")


def writer_lock(engine: sa.Engine) -> AbstractContextManager[object]:
    """Return the lock for a write: one per file and process on SQLite, none elsewhere.

    SQLite allows one writer, and a waiting writer polls with sleeps. Without this lock an
    evaluation would find the file locked at every poll while requests write one after the other.
    """
    if engine.dialect.name != "sqlite":
        return nullcontext()
    return _writer_locks.setdefault(str(engine.url), threading.Lock())


@contextmanager
def no_wait_for_disk(connection: sa.Connection) -> Iterator[None]:
    """Let transactions end before SQLite's disk has them: for what can be computed again.

    After a crash of the machine the newest ones may be missing, and the collector that computed
    them has ended, too. A later transaction that waits brings them to the disk. PostgreSQL always
    waits: its server may crash while the collector lives.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA synchronous=NORMAL")
    try:
        yield
    finally:
        driver.execute("PRAGMA synchronous=FULL")


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Open a transaction that reads before it writes, without concurrent writers on SQLite."""
    with writer_lock(engine), engine.begin() as connection:
        begin_writing(connection)
        yield connection


def insert(dialect: sa.Dialect, table: sa.Table) -> sqlite_dml.Insert | postgresql_dml.Insert:
    """Return the dialect's insert, which supports conflict clauses."""
    if dialect.name == "sqlite":
        return sqlite_dml.insert(table)
    return postgresql_dml.insert(table)


def upsert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Write rows with the same columns; a row replaces the stored row with its primary key."""
    if not rows:
        return
    connection.execute(_upsert(connection.dialect, table, tuple(rows[0])), rows)


@lru_cache(maxsize=64)
def _upsert(dialect: sa.Dialect, table: sa.Table, names: tuple[str, ...]) -> sa.Insert:
    keys = [column.name for column in table.primary_key]
    statement = insert(dialect, table)
    changed = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def lock_unavailable(error: sa.exc.DBAPIError) -> bool:
    """Return whether another session of PostgreSQL holds a lock that a statement did not get."""
    return getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def refusal(error: BaseException) -> str | None:
    """Return why the database can never accept this value, or None if a retry may succeed."""
    refused = (sa.exc.DataError, sa.exc.IntegrityError, sa.exc.NotSupportedError)
    if isinstance(error, sa.exc.DBAPIError) and not isinstance(error, refused):
        return None
    reason = str(getattr(error, "orig", None) or error)
    return f"the database refuses it: {' '.join(reason.split())}"[:300]


def shown(url: str | sa.URL) -> str:
    """Return a path, or a URL that is safe to log: without its password and its query."""
    if "://" not in str(url):
        return str(url)
    try:
        parsed_url = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return str(url).partition("://")[0][:80] + "://..."
    return parsed_url.set(query={}).render_as_string(hide_password=True)


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.execute(f"PRAGMA busy_timeout={_SQLITE_PATIENCE_S * 1000}")
    connection.execute("PRAGMA synchronous=FULL")
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        # Only for a new file: on an existing file this would write each time.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    deadline = time.monotonic() + _SQLITE_PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            # SQLite ignores the timeout here while another connection makes the same change to the
            # same new file.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
