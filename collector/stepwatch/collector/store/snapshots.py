"""The newest state snapshots per job; `state/snapshot` defines their content."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.leases import Lease, fenced

KEPT = 2
"""Number of snapshots per job.

The newest, and the previous one in case the newest is unreadable.
"""


class StoredSnapshot(NamedTuple):
    """A stored snapshot, and the last log position that it includes."""

    position: int
    payload: bytes


class Snapshots:
    """The snapshot table."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def save(
        self,
        job: str,
        stored: StoredSnapshot,
        *,
        format: int,
        saved_ns: int,
        lease: Lease | None = None,
    ) -> None:
        """Store a snapshot and drop the job's older ones beyond `KEPT`, all or nothing.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable or full; the others stay.
            LeaseLostError: another collector holds `lease`; nothing was written.
        """
        table, payload = schema.snapshot, stored.payload
        row = {
            "job": job,
            "position": stored.position,
            "format": format,
            "saved_ns": saved_ns,
            "size": len(payload),
            "crc32": zlib.crc32(payload),
            "payload": payload,
        }
        with fenced(self._engine, lease) as connection:
            connection.execute(sa.insert(table).values(**row))
            ids = sa.select(table.c.id).where(table.c.job == job).order_by(table.c.id.desc())
            newest_ids = connection.execute(ids.limit(KEPT)).scalars().all()
            connection.execute(
                sa.delete(table).where(table.c.job == job, table.c.id < min(newest_ids))
            )

    def newest_first(self, job: str) -> Iterator[StoredSnapshot]:
        """Yield a job's snapshots one at a time, as each may be large.

        Damaged ones are included.
        """
        table = schema.snapshot
        ids = sa.select(table.c.id).where(table.c.job == job).order_by(table.c.id.desc())
        # With a damaged type tag SQLite returns text; the cast still gives bytes.
        payload = sa.cast(table.c.payload, sa.LargeBinary).label("payload")
        with self._engine.connect() as connection:
            for identity in connection.execute(ids).scalars().all():
                query = sa.select(table.c.position, payload).where(table.c.id == identity)
                row = connection.execute(query).one_or_none()
                if row is not None:
                    yield StoredSnapshot(int(row.position), bytes(row.payload))
