"""Moves an unused store to another schema, forward or back."""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import migrations
from stepwatch.collector.store.database import (
    connect_to,
    lock_tables,
    schema_of,
    shown,
    without_time_limits,
)
from stepwatch.collector.store.outages.outage import reason_of
from stepwatch.signals.errors import StoreError

_PATIENCE_MS = 200
_OTHERS = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid() AND coalesce(backend_type, 'client backend') = 'client backend'"
)


class Moved(NamedTuple):
    """A completed move.

    The schema before and after the move, and its duration in seconds.
    """

    old_schema: str
    new_schema: str
    seconds: float


def move(url: str | sa.URL, target: str, *, dry_run: bool = False) -> Moved:
    """Move a store to a schema, all or nothing; a dry run rolls the changes back.

    Raises:
        StoreError: there is no store, its schema or `target` is unknown, or the store is in use.
    """
    engine = connect_to(url)
    try:
        current = _current_schema(engine)
        if not {current, target}.issubset(migrations.SCHEMAS):
            schemas = ", ".join(migrations.SCHEMAS)
            raise StoreError(
                f"cannot move the store from schema {current} to {target}: "
                f"this stepwatch knows {schemas}"
            )
        _refuse_others(engine)
        began = time.monotonic()
        with engine.connect() as connection:
            without_time_limits(connection)
            lock_tables(connection)
            if current != target:
                migrations.migrate(connection, target)
            connection.rollback() if dry_run else connection.commit()
        return Moved(current, target, time.monotonic() - began)
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(f"cannot move {shown(url)}: {reason_of(error)}") from error
    finally:
        engine.dispose()


def _current_schema(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        version = schema_of(connection)
    if version is None:
        raise StoreError(f"there is no store in {shown(engine.url)}; pass another --store")
    return version


def _refuse_others(engine: sa.Engine) -> None:
    """Refuse a database with other connections.

    A running collector does not notice table changes.
    """
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            used = bool(connection.execute(_OTHERS).scalar_one())
    else:
        engine.dispose()  # closes its own connections; they reopen on demand
        used = _is_open_elsewhere(engine)
    if used:
        raise StoreError(
            f"{shown(engine.url)} is in use: stop the collectors that use it, then do this again"
        )


def _is_open_elsewhere(engine: sa.Engine) -> bool:
    """Return whether any process has another connection to an SQLite file.

    In WAL mode each connection holds a shared lock, and leaving WAL mode needs an exclusive one.
    """
    connection = sqlite3.connect(str(engine.url.database), timeout=_PATIENCE_MS / 1000)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False
