"""One collector at a time puts segments together, and removes objects that nothing refers to."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

_TURN = 0x7374626E
"""PostgreSQL's advisory lock of the collector whose turn it is: "stbn" in ASCII."""


@contextmanager
def turn(engine: sa.Engine) -> Iterator[bool]:
    """Whether it is this one's turn: nobody else has it until this ends.

    On SQLite it is the lock of a file beside the store's, `store.db-turn`.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
        OSError: the file beside it cannot be written.
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
        # Outside a transaction: one that does nothing for long is ended by the server.
        connection.execution_options(isolation_level="AUTOCOMMIT")
        lock = sa.select(sa.func.pg_try_advisory_lock(_TURN))
        has_turn = bool(connection.execute(lock).scalar_one())
        try:
            yield has_turn
        finally:
            if has_turn:
                connection.execute(sa.select(sa.func.pg_advisory_unlock(_TURN)))


@contextmanager
def _locked(path: str) -> Iterator[bool]:
    # Never the store's own file: closing it would end SQLite's locks of this process.
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
