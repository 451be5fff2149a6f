"""Segments in formats that this version cannot read, stored for a later version."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert

MAX_UNDECODED_BYTES = 1 << 30
"""Size limit in bytes; beyond it segments are refused as before, and their agent holds them."""
MAX_UNDECODED_SEGMENTS = 1 << 20
"""Count limit: for tiny segments a row costs about twice its bytes."""


class UndecodedSegment(NamedTuple):
    """One undecoded segment: its id, received bytes, and time received (wall nanoseconds)."""

    id: int
    payload: bytes
    received_ns: int


class Undecoded:
    """The table of segments that await a version that can read them."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def keep(self, segments: Iterable[tuple[bytes, int]], received_ns: int) -> int:
        """Store each segment's (bytes, format), duplicates once; return the number of new ones."""
        table, new = schema.undecoded, 0
        with self._engine.begin() as connection:
            size = sa.func.coalesce(sa.func.sum(table.c.size), 0)
            stored_bytes, stored_count = connection.execute(
                sa.select(size, sa.func.count()).select_from(table)
            ).one()
            for data, number in segments:
                if (
                    stored_bytes + len(data) > MAX_UNDECODED_BYTES
                    or stored_count + new >= MAX_UNDECODED_SEGMENTS
                ):
                    break
                row = {
                    "digest": hashlib.sha256(data).hexdigest(),
                    "format": number,
                    "received_ns": received_ns,
                    "size": len(data),
                    "payload": data,
                }
                statement = (
                    insert(connection.dialect, schema.undecoded)
                    .values(**row)
                    .on_conflict_do_nothing()
                    .returning(table.c.id)
                )
                stored = connection.execute(statement).first() is not None
                stored_bytes, new = stored_bytes + len(data) * stored, new + stored
        return new

    def of_formats(
        self, formats: Collection[int], *, after_id: int = 0, limit: int = 64
    ) -> list[UndecodedSegment]:
        """Return undecoded segments in these formats after `after_id`, in the order received."""
        table = schema.undecoded
        # With a damaged type tag SQLite returns text; the cast still gives bytes.
        payload = sa.cast(table.c.payload, sa.LargeBinary).label("payload")
        columns = (table.c.id, payload, table.c.received_ns)
        query = sa.select(*columns).where(table.c.format.in_(formats), table.c.id > after_id)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.id).limit(limit))
            return [UndecodedSegment(int(r.id), bytes(r.payload), int(r.received_ns)) for r in rows]

    def drop(self, ids: Collection[int]) -> None:
        """Remove segments that are now stored decoded."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(schema.undecoded).where(schema.undecoded.c.id.in_(ids)))

    def count(self) -> int:
        """Return the number of undecoded segments."""
        with self._engine.connect() as connection:
            query = sa.select(sa.func.count()).select_from(schema.undecoded)
            return int(connection.execute(query).scalar_one())
