"""Maintenance counters: for this process, and permanently in the store."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles.making import BundleTotals
from stepwatch.collector.store.database import insert
from stepwatch.signals.clock import NANOSECONDS

SEGMENTS, BUNDLES, SNAPSHOTS = "segments", "bundles", "snapshots"
SLICES, ACCOUNTS, INCIDENTS = "slices", "accounts", "incidents"
KINDS = (SEGMENTS, BUNDLES, SNAPSHOTS, SLICES, ACCOUNTS, INCIDENTS)
REMOVED, RETENTION, COMPACTED = "removed", "retention", "compacted"


class Done(NamedTuple):
    """A task's work on one kind of data: rows, bytes, and the time of the last run (ns)."""

    task: str
    kind: str
    rows: int
    bytes: int
    last_ns: int


class Upkeep:
    """Counters for this process and, in the store, for all processes.

    `removed` maps a kind of data to the (rows, bytes) that retention removed. `retention_s` is the
    time of its last run in Unix seconds, NaN before the first. `totals` counts compaction's work,
    and `object_failures` its failed object store accesses.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.removed: dict[str, tuple[int, int]] = dict.fromkeys(KINDS, (0, 0))
        self.retention_s = math.nan
        self.totals = BundleTotals()
        self.object_failures = 0
        self._engine = engine

    def retained(self, removed: Iterable[tuple[str, int, int]], now_ns: int) -> None:
        """Count the rows that retention removed: (kind, rows, bytes) each.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer; the process has counted.
        """
        entries = [Done(RETENTION, "", 0, 0, now_ns)]
        for kind, rows, size in removed:
            previous = self.removed[kind]
            self.removed[kind] = (previous[0] + rows, previous[1] + size)
            entries.append(Done(REMOVED, kind, rows, size, now_ns))
        self.retention_s = now_ns / NANOSECONDS
        with self._engine.begin() as connection:
            add(connection, entries)

    def compacted(self, connection: sa.Connection, bundled: BundleTotals, now_ns: int) -> None:
        """Count bundled segments in the store, within the connection's transaction."""
        segments = Done(COMPACTED, SEGMENTS, bundled.segments, bundled.bytes_before, now_ns)
        bundles = Done(COMPACTED, BUNDLES, bundled.bundles, bundled.bytes_after, now_ns)
        add(connection, [segments, bundles])

    def stored(self) -> list[Done]:
        """Return the store's totals since its creation, over all processes."""
        table = schema.upkeep
        query = sa.select(*(table.c[name] for name in Done._fields))
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.task, table.c.kind))
            return [Done(*row) for row in rows]


def add(connection: sa.Connection, entries: Iterable[Done]) -> None:
    """Add to the counters in the store, within the connection's transaction."""
    table = schema.upkeep
    for entry in entries:
        more = insert(connection.dialect, table).values(**entry._asdict())
        new = more.excluded
        counted = {
            "rows": table.c.rows + new.rows,
            "bytes": table.c.bytes + new.bytes,
            "last_ns": new.last_ns,
        }
        connection.execute(
            more.on_conflict_do_update(index_elements=["task", "kind"], set_=counted)
        )
