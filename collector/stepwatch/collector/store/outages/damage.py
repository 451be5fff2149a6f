"""Distinguishes damaged rows, which affect one job, from a store outage."""

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
    """Turn an error from damaged rows of `subject` into an error that affects only their job.

    Raises:
        StoreDamagedError: the rows are damaged.
        sqlalchemy.exc.SQLAlchemyError: any other database error, unchanged; also for an error
            from a driver's own cursor.
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
        return True  # a value with the wrong column type, or a text that is not UTF-8
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        # Without a code, the driver itself failed to decode a text.
        return "decode" in str(error) if code is None else code & 0xFF in _SQLITE_DAMAGE
    return getattr(error, "sqlstate", None) in _POSTGRESQL_DAMAGE
