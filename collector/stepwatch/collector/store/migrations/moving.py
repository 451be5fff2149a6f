"""A store is moved to another schema, later or earlier, while nobody uses it."""

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
    """From which schema a store was moved to which, and how many seconds that took."""

    found: str
    to: str
    seconds: float


def move(url: str | sa.URL, to: str, *, dry_run: bool = False) -> Moved:
    """Move a store to a schema, all or nothing; a dry run does it all and takes it back.

    Raises:
        StoreError: there is no store, its schema or `to` is not known, or somebody uses it.
    """
    engine = connect_to(url)
    try:
        found = _found(engine)
        if not {found, to}.issubset(migrations.SCHEMAS):
            known = ", ".join(migrations.SCHEMAS)
            raise StoreError(
                f"cannot move the store from schema {found} to {to}: this stepwatch knows {known}"
            )
        _refuse_others(engine)
        began = time.monotonic()
        with engine.connect() as connection:
            without_time_limits(connection)
            lock_tables(connection)
            if found != to:
                migrations.migrate(connection, to)
            connection.rollback() if dry_run else connection.commit()
        return Moved(found, to, time.monotonic() - began)
    except sa.exc.SQLAlchemyError as error:
        raise StoreError(f"cannot move {shown(url)}: {reason_of(error)}") from error
    finally:
        engine.dispose()


def _found(engine: sa.Engine) -> str:
    with engine.connect() as connection:
        found = schema_of(connection)
    if found is None:
        raise StoreError(f"there is no store in {shown(engine.url)}; pass another --store")
    return found


def _refuse_others(engine: sa.Engine) -> None:
    """Refuse a database that others have open: a collector does not notice a change of tables."""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            used = bool(connection.execute(_OTHERS).scalar_one())
    else:
        engine.dispose()  # its own connections are closed, and made anew
        used = _is_open_elsewhere(engine)
    if used:
        raise StoreError(
            f"{shown(engine.url)} is in use: stop the collectors that use it, then do this again"
        )


def _is_open_elsewhere(engine: sa.Engine) -> bool:
    """Whether another connection has an SQLite file open, in whatever process.

    Each connection keeps a lock on a file with a log beside it, and leaving that way of writing
    takes a lock that none of them shares.
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
