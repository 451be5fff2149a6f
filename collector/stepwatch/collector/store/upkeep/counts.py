"""What looking after a store has done: counted by this process, and in the store for good."""

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
    """What a task did to one kind of data: rows, bytes, and when (ns) it did so last."""

    task: str
    kind: str
    rows: int
    bytes: int
    last_ns: int


class Upkeep:
    """Counts of one process, and those of all processes, which are in the store.

    `removed` maps a kind of data to (rows, bytes) that retention removed, `retention_s` is when
    it looked last, in Unix seconds, NaN before the first time. `totals` is what compaction did,
    `object_failures` how often the place of payloads did not answer it, `orphans` the objects
    that it removed as no bundle refers to them.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self.removed: dict[str, tuple[int, int]] = dict.fromkeys(KINDS, (0, 0))
        self.retention_s = math.nan
        self.totals = BundleTotals()
        self.object_failures = 0
        self.orphans = 0
        self._engine = engine

    def retained(self, removed: Iterable[tuple[str, int, int]], now_ns: int) -> None:
        """Count what retention removed: (kind, rows, bytes) each.

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
        """Count what was put together in the store, within the connection's transaction."""
        segments = Done(COMPACTED, SEGMENTS, bundled.segments, bundled.bytes_before, now_ns)
        bundles = Done(COMPACTED, BUNDLES, bundled.bundles, bundled.bytes_after, now_ns)
        add(connection, [segments, bundles])

    def stored(self) -> list[Done]:
        """What was done to this store since it was made, by any process."""
        table = schema.upkeep
        query = sa.select(*(table.c[name] for name in Done._fields))
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(table.c.task, table.c.kind))
            return [Done(*row) for row in rows]


def add(connection: sa.Connection, entries: Iterable[Done]) -> None:
    """Add to the counts in the store, within the connection's transaction."""
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
