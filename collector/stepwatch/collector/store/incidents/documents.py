"""Incidents as documents; a damaged one hides no other."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import upsert

logger = logging.getLogger(__name__)


class Incidents:
    """The incidents in a store, over all jobs."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self.unreadable: set[str] = set()
        """Ids of the incidents that were read and have a damaged document."""

    def newest(
        self,
        job: str | None = None,
        state: str | None = None,
        limit: int = 1000,
        since_s: float | None = None,
    ) -> list[dict[str, Any]]:
        """Return the newest incidents, for one job or all, in one state or any.

        With `since_s` (Unix seconds), only those that opened since then. An incident with a damaged
        document is skipped, logged, and added to `unreadable`.
        """
        table = schema.incident
        query = sa.select(table.c.id, self._raw_document()).order_by(
            table.c.opened_at.desc(), table.c.id
        )
        if job is not None:
            query = query.where(table.c.job == job)
        if state is not None:
            query = query.where(table.c.state == state)
        if since_s is not None:
            query = query.where(table.c.opened_at >= since_s)
        with self._engine.connect() as connection:
            rows = connection.execute(query.limit(limit)).all()
        documents = (self._document(row.id, row.raw) for row in rows)
        return [document for document in documents if document is not None]

    def one(self, identity: str) -> dict[str, Any] | None:
        """Return one incident by id; None if it does not exist or its document is damaged."""
        query = sa.select(self._raw_document()).where(schema.incident.c.id == identity)
        with self._engine.connect() as connection:
            raw = connection.execute(query).scalar_one_or_none()
        return None if raw is None else self._document(identity, raw)

    def _document(self, identity: str, raw: str | bytes) -> dict[str, Any] | None:
        try:
            document = json.loads(raw)
            if isinstance(document, dict):
                return document
            reason = "it is not an object"
        except (ValueError, RecursionError) as error:
            reason = str(error)
        logger.warning("the document of incident %s is damaged: %s", identity, reason)
        self.unreadable.add(identity)
        return None

    def _raw_document(self) -> sa.Label[Any]:
        """Select raw documents; as bytes where the text may not be UTF-8."""
        sqlite = self._engine.dialect.name == "sqlite"
        kind = sa.LargeBinary() if sqlite else sa.Text()
        return sa.cast(schema.incident.c.document, kind).label("raw")


def put_incidents(connection: sa.Connection, documents: Sequence[dict[str, Any]]) -> None:
    """Write incidents in the caller's transaction; an incident with the same id is replaced."""
    upsert(connection, schema.incident, [_columns(document) for document in documents])


def _columns(document: dict[str, Any]) -> dict[str, Any]:
    columns = {key: document[key] for key in ("id", "job", "kind", "state")}
    return columns | {"opened_at": document["opened_at"], "document": document}
