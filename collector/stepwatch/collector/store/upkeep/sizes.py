"""Store size by kind of data and by job."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.profiles.tables import profile_trace

KINDS: dict[str, tuple[sa.Table, str | None]] = {
    "segments": (schema.segment, "payload"),
    "bundles": (schema.bundle, "size"),
    "snapshots": (schema.snapshot, "payload"),
    "slices": (schema.sli_slice, None),
    "slice blocks": (schema.slice_block, "payload"),
    "accounts": (schema.account_day, "document"),
    "incidents": (schema.incident, "document"),
    "profiles": (profile_trace, "payload"),
    "undecoded": (schema.undecoded, "payload"),
    "quarantine": (schema.quarantine, "head"),
}
"""Table per kind of data, and its large column, if any."""


class KindSize(NamedTuple):
    """Row count for one kind of data, and the size of its large column in bytes.

    Without a large column: the table's size on disk, None if the database does not report it.
    """

    rows: int
    bytes: int | None


class JobSize(NamedTuple):
    """A job's segments (with bundled ones), records, bytes, and last write (ns)."""

    job: str
    segments: int
    records: int
    bytes: int
    last_received_ns: int


class StoreSize(NamedTuple):
    """The database size in bytes and, if known, its free space."""

    bytes: int
    free_bytes: int | None
    kinds: dict[str, KindSize]
    jobs: list[JobSize]


def size_of(engine: sa.Engine) -> StoreSize:
    """Measure a store; the largest jobs come first.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database does not answer.
    """
    with engine.connect() as connection:
        total, free = _database_size(connection)
        kinds = {name: _kind(connection, *columns) for name, columns in KINDS.items()}
        return StoreSize(total, free, kinds, _jobs(connection))


def _database_size(connection: sa.Connection) -> tuple[int, int | None]:
    if connection.dialect.name == "postgresql":
        size = sa.func.pg_database_size(sa.func.current_database())
        return int(connection.execute(sa.select(size)).scalar_one()), None
    pages, free, page = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return pages * page, free * page


def _kind(connection: sa.Connection, table: sa.Table, large: str | None) -> KindSize:
    if large is None:
        count = connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        return KindSize(int(count), _on_disk(connection, table))
    column = table.c[large]
    if large == "size":
        counted = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(column), 0))
        rows, total = connection.execute(counted).one()
        return KindSize(int(rows), int(total))
    text = sa.cast(column, sa.Text) if isinstance(column.type, sa.JSON) else column
    size = sa.func.coalesce(sa.func.sum(sa.func.length(text)), 0)
    rows, total = connection.execute(sa.select(sa.func.count(), size)).one()
    return KindSize(int(rows), int(total))


def _on_disk(connection: sa.Connection, table: sa.Table) -> int | None:
    """Return a table's size with its indexes, in bytes."""
    if connection.dialect.name == "postgresql":
        size = sa.func.pg_total_relation_size(table.name)
        return int(connection.execute(sa.select(size)).scalar_one())
    query = sa.text(
        "SELECT sum(pgsize) FROM dbstat "
        "WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = :table)"
    )
    try:
        return int(connection.execute(query, {"table": table.name}).scalar_one())
    except sa.exc.OperationalError:  # SQLite may be built without dbstat
        return None


def _jobs(connection: sa.Connection) -> list[JobSize]:
    segment, bundle = schema.segment, schema.bundle
    size = sa.func.sum(sa.func.length(segment.c.payload))
    loose = sa.select(segment.c.job, sa.func.count(), sa.func.sum(segment.c.row_count), size)
    sums = (sa.func.sum(bundle.c[name]) for name in ("segments", "records", "size"))
    bundled = sa.select(bundle.c.job, *sums)
    totals: dict[str, tuple[int, int, int]] = {}
    for query in (loose.group_by(segment.c.job), bundled.group_by(bundle.c.job)):
        for name, *more in connection.execute(query):
            previous = totals.get(name, (0, 0, 0))
            segments, records, size_now = (int(a + b) for a, b in zip(previous, more, strict=True))
            totals[name] = (segments, records, size_now)
    rows = connection.execute(sa.select(schema.job.c.name, schema.job.c.last_received_ns))
    last = {row.name: int(row.last_received_ns) for row in rows}
    sizes = [JobSize(name, *counts, last.get(name, 0)) for name, counts in totals.items()]
    return sorted(sizes, key=lambda job_size: (-job_size.bytes, job_size.job))
