"""Lock for maintenance: one collector at a time bundles segments and removes orphaned objects."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

_TURN = 0x7374626E
"""PostgreSQL's advisory lock for maintenance: "stbn" in ASCII."""


@contextmanager
def turn(engine: sa.Engine) -> Iterator[bool]:
    """Yield whether this collector has the turn; it is exclusive until the context ends.

    On SQLite the lock is a file beside the store's, `store.db-turn`.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
        OSError: the lock file cannot be written.
    """
    if engine.dialect.name == "postgresql":
        with _advisory(engine) as has_turn:
            yield has_turn
    elif engine.url.database in (None, "", ":memory:"):
        yield True
    else:
        with _locked(f"{engine.url.database}-turn") as has_turn:
            yield has_turn


@contextmanager
def _advisory(engine: sa.Engine) -> Iterator[bool]:
    with engine.connect() as connection:
        # Outside a transaction: the server ends idle transactions.
        connection.execution_options(isolation_level="AUTOCOMMIT")
        lock = sa.select(sa.func.pg_try_advisory_lock(_TURN))
        has_turn = bool(connection.execute(lock).scalar_one())
        try:
            yield has_turn
        finally:
            if has_turn:
                _unlock(connection)


def _unlock(connection: sa.Connection) -> None:
    """Release the lock; if that fails, close the session, as the pool would keep it locked."""
    try:
        connection.execute(sa.select(sa.func.pg_advisory_unlock(_TURN)))
    except BaseException:
        connection.invalidate()
        raise


@contextmanager
def _locked(path: str) -> Iterator[bool]:
    # Never the store's own file: closing it would release this process's SQLite locks.
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
