"""The database of a store: opened, its tables made or brought up to date; and its dialects."""

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

SCHEMA_VERSION = "7"
REFUSALS = (sa.exc.StatementError, ArithmeticError, TypeError, ValueError)
"""What a database or its driver raises when it refuses a value, among other things."""
_SQLITE_PATIENCE_S = 5
"""How long a statement waits for another connection's lock."""
_writer_locks: dict[str, threading.Lock] = {}
_TABLES_LOCK = 0x73746570
"""PostgreSQL's advisory lock while tables are made: "step" in ASCII."""
_POSTGRESQL_PATIENCE = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "options": "-c idle_in_transaction_session_timeout=10000 -c lock_timeout=5000 "
    "-c statement_timeout=300000",
}
"""libpq's parameters where the URL has none: a server that is cut off is noticed in about 10 s, and
the server ends the transaction, with its locks, of a client that is cut off. A statement waits 5 s
for a lock that another session holds, and runs for five minutes at most: a request is refused then,
and its agent tries again."""
_WITHOUT_LIMITS = ("SET LOCAL lock_timeout = 0", "SET LOCAL statement_timeout = 0")


def open_database(url: str | sa.URL) -> sa.Engine:
    """Connect to the database at an SQLAlchemy URL, and make what it lacks.

    Raises:
        StoreError: it cannot be opened or was written by a newer stepwatch.
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
    """The database at an SQLAlchemy URL, its tables as they are.

    Raises:
        StoreError: the URL is none, or of no database that a store can be in.
    """
    try:
        return _engine(sa.make_url(url))
    except sa.exc.SQLAlchemyError as error:
        raise _unopened(url, error) from error
    except ValueError as error:  # a port that is no number
        raise StoreError(
            f"{shown(url)} is no URL of a store: {error}; pass another --store"
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
    # A connection that the server closed is replaced before it is used.
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
        version = schema_of(connection)  # another process may have been first
        if version is None:
            _create_tables(connection)
        elif version in migrations.EARLIER:
            began = time.monotonic()
            migrations.migrate(connection, SCHEMA_VERSION)
            seconds, place = time.monotonic() - began, shown(engine.url)
            logger.info(
                "upgraded the store %s from schema %s to %s in %.1f s",
                *(place, version, SCHEMA_VERSION, seconds),
            )
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"the store has schema {version}, this stepwatch reads {SCHEMA_VERSION}; "
                "use the stepwatch that wrote it, or another --store"
            )


def schema_of(connection: sa.Connection) -> str | None:
    """The schema of the tables; None where there are none.

    The first releases made their tables before they noted a version.
    """
    tables = sa.inspect(connection)
    if tables.has_table("meta"):
        query = sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema")
        version = connection.execute(query).scalar_one_or_none()
        if version is not None:
            return str(version)
    return migrations.EARLIER[0] if tables.has_table("segment") else None


def _create_tables(connection: sa.Connection) -> None:
    schema.metadata.create_all(connection)
    connection.execute(sa.insert(schema.meta).values(key="schema", value=SCHEMA_VERSION))
    connection.execute(sa.insert(schema.alembic_version).values(version_num=SCHEMA_VERSION))


def lock_tables(connection: sa.Connection) -> None:
    """Keep others from changing tables until the connection's transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES_LOCK)))
    else:
        begin_writing(connection)


def without_time_limits(connection: sa.Connection) -> None:
    """Let statements of the connection's transaction take, and wait, as long as they must.

    For migrations: a large table takes minutes, and no agent waits for the answer.
    """
    if connection.dialect.name == "postgresql":
        for statement in _WITHOUT_LIMITS:
            connection.exec_driver_sql(statement)


def begin_writing(connection: sa.Connection) -> None:
    """Take SQLite's lock for writers before the transaction's first statement.

    Its driver begins a transaction at the first insert only, and none for tables or savepoints.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def hold_moment(connection: sa.Connection) -> None:
    """Let the connection's statements read the store as it is at the first of them."""
    if connection.dialect.name == "postgresql":
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    else:
        connection.exec_driver_sql("BEGIN")


def writer_lock(engine: sa.Engine) -> AbstractContextManager[object]:
    """What a write holds: on SQLite one lock of this process for each file, nothing elsewhere.

    SQLite lets one write at a time, and who waits there sleeps and tries again: an evaluation
    would find the file locked whenever it looks while requests write one after the other.
    """
    if engine.dialect.name != "sqlite":
        return nullcontext()
    return _writer_locks.setdefault(str(engine.url), threading.Lock())


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that reads first and writes then, with nobody in between on SQLite."""
    with writer_lock(engine), engine.begin() as connection:
        begin_writing(connection)
        yield connection


def insert(dialect: sa.Dialect, table: sa.Table) -> sqlite_dml.Insert | postgresql_dml.Insert:
    """An insert of a dialect, which says what to do on a conflict."""
    if dialect.name == "sqlite":
        return sqlite_dml.insert(table)
    return postgresql_dml.insert(table)


def upsert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Write rows with the same columns; one with a row's primary key is replaced by it."""
    if not rows:
        return
    connection.execute(_upsert(connection.dialect, table, tuple(rows[0])), rows)


@lru_cache(maxsize=64)
def _upsert(dialect: sa.Dialect, table: sa.Table, names: tuple[str, ...]) -> sa.Insert:
    keys = [column.name for column in table.primary_key]
    statement = insert(dialect, table)
    changed = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def refusal(error: BaseException) -> str | None:
    """Why the database will never take this value; None where it may when asked again."""
    refused = (sa.exc.DataError, sa.exc.IntegrityError, sa.exc.NotSupportedError)
    if isinstance(error, sa.exc.DBAPIError) and not isinstance(error, refused):
        return None
    reason = str(getattr(error, "orig", None) or error)
    return f"the database refuses it: {' '.join(reason.split())}"[:300]


def shown(url: str | sa.URL) -> str:
    """A path, or a URL as a message may hold it: without its password, or one in its query."""
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
        # Of a new file alone: it would write to every other one each time.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
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
