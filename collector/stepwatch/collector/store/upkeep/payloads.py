"""One store's objects: the folder for new ones, and orphans that no bundle refers to."""

from __future__ import annotations

import uuid

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles.objects import Listed, checked_url, place_of
from stepwatch.collector.store.database import insert
from stepwatch.collector.store.upkeep.turn import turn

ORPHANED_S = 24 * 3600.0
"""Age at which an unreferenced object is removed: by that time its row will never be written."""
_AT_ONCE = 500
_KEY = "objects"


class Payloads:
    """A store's objects below `url`, in the store's own folder: several stores may share a URL.

    Raises:
        StoreError: no installed package supports the URL.
    """

    def __init__(self, engine: sa.Engine, url: str) -> None:
        self._engine = engine
        self._url = checked_url(url)
        self.objects = place_of(self._url)

    def base(self) -> str:
        """Return the URL of this store's folder.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        table = schema.meta
        query = sa.select(table.c.value).where(table.c.key == _KEY)
        with self._engine.begin() as connection:
            folder = connection.execute(query).scalar_one_or_none()
            if folder is None:
                row = insert(connection.dialect, table).values(key=_KEY, value=uuid.uuid4().hex)
                connection.execute(row.on_conflict_do_nothing())
                folder = connection.execute(query).scalar_one()
        return f"{self._url}/{folder}"

    def orphans(self, now_s: float) -> list[Listed]:
        """Return unreferenced objects that are old enough.

        A crash after an object was written leaves an orphan, and so does retention. If any bundle
        refers to an object that is not listed, the location has changed or has another name; then
        nothing counts as an orphan.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store, or the place, does not answer.
        """
        column = schema.bundle.c.object
        with self._engine.connect() as connection:
            referred = set(
                connection.execute(sa.select(column).where(column.is_not(None))).scalars()
            )
        listed = self.objects.listed(self.base())
        if not referred <= {entry.url for entry in listed}:
            return []
        old = (entry for entry in listed if entry.written_s < now_s - ORPHANED_S)
        return [entry for entry in old if entry.url not in referred]

    def remove_orphans(self, now_s: float) -> int | None:
        """Remove the orphans and return their number, or None if another collector has the turn.

        A new bundle has an object before it has a row, so its writer holds the turn.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store, or the place, does not answer.
        """
        with turn(self._engine) as has_turn:
            if not has_turn:
                return None
            orphans = self.orphans(now_s)
            for orphan in orphans:
                self.objects.remove(orphan.url)
        return len(orphans)
