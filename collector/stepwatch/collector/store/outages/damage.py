"""Rows that the database holds and cannot read: damage of one job, not an outage of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from stepwatch.signals.errors import StoreDamagedError

_SQLITE_DAMAGE = (11, 26)
"""SQLITE_CORRUPT and SQLITE_NOTADB (sqlite.org/rescode.html), without their extended part."""
_POSTGRESQL_DAMAGE = ("XX001", "XX002")
"""data_corrupted and index_corrupted (PostgreSQL's appendix A)."""


@contextmanager
def naming_damage(subject: str) -> Iterator[None]:
    """Turn an error that damaged rows of `subject` cause into one that concerns their job alone.

    Raises:
        StoreDamagedError: the rows are damaged.
        sqlalchemy.exc.SQLAlchemyError: anything else of the database, as it is; what a driver's own
            cursor raises, too.
    """
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error, TypeError, ValueError) as error:
        original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not _is_damage(original):
            if isinstance(error, sqlite3.Error):
                raise sa.exc.DBAPIError.instance("", None, error, sqlite3.Error) from error
            raise
        reason = " ".join(str(original).split())
        raise StoreDamagedError(
            f"the store cannot read {subject} ({reason}); restore a backup: stepwatch store restore"
        ) from error


def _is_damage(error: BaseException | None) -> bool:
    if isinstance(error, TypeError | ValueError):
        return True  # a value of another type than its column, or a text that is no UTF-8
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        # Without a code the driver itself could not decode a text.
        return "decode" in str(error) if code is None else code & 0xFF in _SQLITE_DAMAGE
    return getattr(error, "sqlstate", None) in _POSTGRESQL_DAMAGE
