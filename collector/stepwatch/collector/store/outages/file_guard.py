"""Detects that SQLite's file was deleted or replaced, and blocks writes to it.

SQLite continues to use a deleted or replaced file, and the data accepted meanwhile is lost on exit.
So the file is checked before each use of a connection (one `stat`, a microsecond).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa


class _FileGuard:
    """The file at `path`, identified by its device and inode at the first open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: tuple[int, int] | None = None

    def check(self) -> None:
        """Compare the file with the one that was opened, if any.

        Raises:
            sqlalchemy.exc.OperationalError: the file was deleted or replaced.
        """
        identity = self._identity()
        if self._opened is None:
            self._opened = identity
        elif identity != self._opened:
            change = "was deleted" if identity is None else "was replaced by another file"
            reason = (
                f"the store file {self._path} {change} while it was open; put it back, "
                "or restore a backup, and start the collector again"
            )
            raise sa.exc.OperationalError("", None, sqlite3.OperationalError(reason))

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:  # a brief file server failure is an outage, not another file
            reason = f"the store file {self._path} cannot be looked at: {error.strerror}"
            raise sa.exc.OperationalError("", None, sqlite3.OperationalError(reason)) from error
        return status.st_dev, status.st_ino


def guard_file(engine: sa.Engine) -> None:
    """Refuse every use of `engine` once its SQLite file was deleted or replaced.

    An in-memory database has no file and no guard.
    """
    name = engine.url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        return
    guard = _FileGuard(Path(name).absolute())

    # Before a new connection: SQLite would create a new, empty file.
    @sa.event.listens_for(engine, "do_connect")
    def connecting(*_: Any) -> None:
        if guard._opened is not None:
            guard.check()

    @sa.event.listens_for(engine, "checkout")
    def checked_out(*_: Any) -> None:
        guard.check()
