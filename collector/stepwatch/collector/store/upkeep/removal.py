"""Selects data for removal: data classes, the affected jobs, and pinned data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.profiles.tables import profile_request, profile_trace
from stepwatch.collector.store.response.tables import incident_note
from stepwatch.collector.store.upkeep import pins
from stepwatch.collector.store.upkeep.counts import (
    ACCOUNTS,
    BUNDLES,
    INCIDENTS,
    SEGMENTS,
    SLICES,
    SNAPSHOTS,
)
from stepwatch.collector.store.upkeep.pins import Pins


@dataclass(frozen=True)
class Keep:
    """Retention per data class in days after the job's last write; None: forever.

    A job's newest snapshot stays as long as its slices: it holds the totals, which would be lower
    without it. Older snapshots are removed with the segments. No data is removed for a job that
    wrote within the last day or has an open incident.

    Segments pinned by an incident stay with it, for at most `pinned` days.
    """

    segments: float | None = 14.0
    slices: float | None = None
    incidents: float | None = None
    pinned: float | None = 90.0

    def before_ns(self, name: str, now_ns: int) -> int | None:
        """Return the last-write limit (ns) for removal of the class `name`.

        None if it is never removed.
        """
        days: float | None = getattr(self, name)
        return None if days is None else now_ns - int(max(days, 1.0) * schema.DAY_NS)


class Removed(NamedTuple):
    """Removed or removable rows for one class and job, and their payload bytes."""

    kind: str
    job: str
    rows: int
    bytes: int


def may_go(before_ns: int) -> sa.ColumnElement[bool]:
    """Return the condition on a job's row for removal of the job's data."""
    incident = schema.incident
    opened = sa.exists().where(incident.c.job == schema.job.c.name, incident.c.state == "open")
    return sa.and_(schema.job.c.last_received_ns < before_ns, ~opened)


class Class(NamedTuple):
    """Rows in `table` that meet `goes`, for jobs whose class `kept_as` has expired."""

    kind: str
    kept_as: str
    table: sa.Table
    goes: sa.ColumnElement[bool]


@dataclass(frozen=True)
class Going:
    """An expired data class.

    Jobs that last wrote before `before_ns` lose it, except pinned rows.
    """

    data_class: Class
    before_ns: int
    pins: Pins = field(default_factory=dict)

    def counted(self, connection: sa.Connection) -> list[Removed]:
        """Return the removable rows, by job."""
        table = self.data_class.table
        of_all = self._counted(connection, sa.true(), self.data_class.goes)
        removals = [removal for removal in of_all if removal.job not in self.pins]
        for job in self.pins:
            removals += self._counted(connection, table.c.job == job, self._goes(job))
        return sorted(removals, key=lambda removal: removal.job)

    def pinned(self, connection: sa.Connection) -> list[Removed]:
        """Return the rows that stay only because an incident pins them, by job."""
        removals = []
        for job, windows in self.pins.items():
            stays = pins.inside(self.data_class.table, windows)
            removals += self._counted(connection, self.data_class.table.c.job == job, stays)
        return removals

    def _goes(self, job: str) -> sa.ColumnElement[bool]:
        """Return the condition for a job's removable rows."""
        windows = self.pins.get(job)
        if not windows:
            return self.data_class.goes
        return sa.and_(self.data_class.goes, ~pins.inside(self.data_class.table, windows))

    def _counted(
        self, connection: sa.Connection, of_jobs: sa.ColumnElement[bool], rows: Any
    ) -> list[Removed]:
        table = self.data_class.table
        query = sa.select(table.c.job, sa.func.count(), sa.func.coalesce(_bytes(table), 0))
        jobs = sa.select(schema.job.c.name).where(may_go(self.before_ns))
        query = query.where(of_jobs, rows, table.c.job.in_(jobs)).group_by(table.c.job)
        counts = connection.execute(query)
        return [
            Removed(self.data_class.kind, job, int(count), int(total))
            for job, count, total in counts
        ]

    def remove_some(self, connection: sa.Connection, job: str, at_once: int) -> int | None:
        """Remove a batch of a job's rows and return its size.

        None if the job may no longer be removed.
        """
        table, of_job = self.data_class.table, schema.job.c.name == job
        key = list(table.primary_key) or [table.c.job, table.c.position]
        still = sa.select(schema.job.c.name).where(of_job, may_go(self.before_ns))
        if connection.execute(still.with_for_update()).first() is None:
            return None
        chosen = sa.select(*key).where(self._goes(job), table.c.job == job).order_by(*key)
        remove = sa.delete(table).where(sa.tuple_(*key).in_(chosen.limit(at_once)))
        removed = connection.execute(remove).rowcount
        if table is schema.bundle:
            _forget_keys(connection, job)
        return removed


def going(connection: sa.Connection, keep: Keep, now_ns: int) -> list[Going]:
    """Return the data classes that `keep` lets expire."""
    expiring = []
    for data_class in CLASSES:
        before_ns = keep.before_ns(data_class.kept_as, now_ns)
        if before_ns is not None:
            pinned = (
                _pins(connection, keep, now_ns) if data_class.kind in (SEGMENTS, BUNDLES) else {}
            )
            expiring.append(Going(data_class, before_ns, pinned))
    return expiring


def _pins(connection: sa.Connection, keep: Keep, now_ns: int) -> Pins:
    """Return pins for jobs with expired segments, unless the pins have expired, too."""
    segments, limit = keep.before_ns("segments", now_ns), keep.before_ns("pinned", now_ns)
    assert segments is not None
    lately = sa.true() if limit is None else schema.job.c.last_received_ns >= limit
    return pins.find(connection, sa.and_(may_go(segments), lately))


def _forget_keys(connection: sa.Connection, job: str) -> None:
    """Delete a job's bundle keys once it has no bundles."""
    bundle, bundle_key = schema.bundle, schema.bundle_key
    has_bundle = sa.exists().where(bundle.c.job == job)
    connection.execute(sa.delete(bundle_key).where(bundle_key.c.job == job, ~has_bundle))


def _bytes(table: sa.Table) -> sa.ColumnElement[Any]:
    if "size" in table.c:
        return sa.func.sum(table.c.size)
    return sa.func.sum(sa.func.length(table.c.payload)) if "payload" in table.c else sa.null()


def _has_newer() -> sa.ColumnElement[bool]:
    """Return the condition that a snapshot's job has a newer one."""
    newer, table = schema.snapshot.alias("newer"), schema.snapshot
    return sa.exists().where(newer.c.job == table.c.job, newer.c.id > table.c.id)


CLASSES = (
    Class(SEGMENTS, SEGMENTS, schema.segment, sa.true()),
    Class(BUNDLES, SEGMENTS, schema.bundle, sa.true()),
    Class(SNAPSHOTS, SEGMENTS, schema.snapshot, _has_newer()),
    Class(SLICES, SLICES, schema.sli_slice, sa.true()),
    Class(SLICES, SLICES, schema.slice_block, sa.true()),
    Class(ACCOUNTS, SLICES, schema.account_day, sa.true()),
    Class(SNAPSHOTS, SLICES, schema.snapshot, ~_has_newer()),
    Class(INCIDENTS, INCIDENTS, schema.incident, schema.incident.c.state != "open"),
    Class(INCIDENTS, INCIDENTS, incident_note, sa.true()),
    Class(INCIDENTS, SEGMENTS, profile_trace, sa.true()),
    Class(INCIDENTS, INCIDENTS, profile_request, sa.true()),
)
