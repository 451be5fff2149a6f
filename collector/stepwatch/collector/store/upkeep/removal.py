"""What goes of a store: classes of data, the jobs of which they go, and what is pinned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
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
    """Days for which each class of data is kept after its job last wrote; None: for ever.

    The newest snapshot of a job stays as long as its slices do: it holds the totals, which would
    be lower without it. An older one goes with the segments. No class is removed of a job that
    wrote within the last day, or that has an open incident.

    Segments that a kept incident refers to stay with it, but for at most `pinned` days.
    """

    segments: float | None = 14.0
    slices: float | None = None
    incidents: float | None = None
    pinned: float | None = 90.0

    def before_ns(self, name: str, now_ns: int) -> int | None:
        """Before when (ns) jobs wrote last whose class `name` goes; None if it never goes."""
        days: float | None = getattr(self, name)
        return None if days is None else now_ns - int(max(days, 1.0) * schema.DAY_NS)


class Removed(NamedTuple):
    """Rows of one class and job that are removed, or would be, and bytes of their payloads."""

    kind: str
    job: str
    rows: int
    bytes: int


def may_go(before_ns: int) -> sa.ColumnElement[bool]:
    """The condition on a job's row under which data of the job is removed."""
    incident = schema.incident
    opened = sa.exists().where(incident.c.job == schema.job.c.name, incident.c.state == "open")
    return sa.and_(schema.job.c.last_received_ns < before_ns, ~opened)


class Class(NamedTuple):
    """Rows of `table` where `goes`, of the jobs whose class `kept_as` goes."""

    kind: str
    kept_as: str
    table: sa.Table
    goes: sa.ColumnElement[bool]


@dataclass(frozen=True)
class Going:
    """A class of data, before when (ns) a job wrote last of which it goes, and what stays."""

    data_class: Class
    before_ns: int
    pins: Pins = field(default_factory=dict)

    def counted(self, connection: sa.Connection) -> list[Removed]:
        """What goes, by job."""
        table = self.data_class.table
        of_all = self._counted(connection, sa.true(), self.data_class.goes)
        removals = [removal for removal in of_all if removal.job not in self.pins]
        for job in self.pins:
            removals += self._counted(connection, table.c.job == job, self._goes(job))
        return sorted(removals, key=lambda removal: removal.job)

    def pinned(self, connection: sa.Connection) -> list[Removed]:
        """What would go, too, if no incident referred to it, by job."""
        removals = []
        for job, windows in self.pins.items():
            stays = pins.inside(self.data_class.table, windows)
            removals += self._counted(connection, self.data_class.table.c.job == job, stays)
        return removals

    def _goes(self, job: str) -> sa.ColumnElement[bool]:
        """The condition on rows of a job."""
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
        """Remove a few rows of a job and return how many; None if the job may not go any more."""
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
    """What `keep` does not keep, class by class."""
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
    """Of the jobs whose segments go, but that wrote too lately for their pins to go."""
    segments, limit = keep.before_ns("segments", now_ns), keep.before_ns("pinned", now_ns)
    assert segments is not None
    lately = sa.true() if limit is None else schema.job.c.last_received_ns >= limit
    return pins.find(connection, sa.and_(may_go(segments), lately))


def _forget_keys(connection: sa.Connection, job: str) -> None:
    """Forget what was in the bundles of a job once it has none."""
    bundle, bundle_key = schema.bundle, schema.bundle_key
    has_bundle = sa.exists().where(bundle.c.job == job)
    connection.execute(sa.delete(bundle_key).where(bundle_key.c.job == job, ~has_bundle))


def _bytes(table: sa.Table) -> sa.ColumnElement[Any]:
    if "size" in table.c:
        return sa.func.sum(table.c.size)
    return sa.func.sum(sa.func.length(table.c.payload)) if "payload" in table.c else sa.null()


def _has_newer() -> sa.ColumnElement[bool]:
    """Of a snapshot: whether its job has a newer one."""
    newer, table = schema.snapshot.alias("newer"), schema.snapshot
    return sa.exists().where(newer.c.job == table.c.job, newer.c.id > table.c.id)


CLASSES = (
    Class(SEGMENTS, SEGMENTS, schema.segment, sa.true()),
    Class(BUNDLES, SEGMENTS, schema.bundle, sa.true()),
    Class(SNAPSHOTS, SEGMENTS, schema.snapshot, _has_newer()),
    Class(SLICES, SLICES, schema.sli_slice, sa.true()),
    Class(ACCOUNTS, SLICES, schema.account_day, sa.true()),
    Class(SNAPSHOTS, SLICES, schema.snapshot, ~_has_newer()),
    Class(INCIDENTS, INCIDENTS, schema.incident, schema.incident.c.state != "open"),
    Class(INCIDENTS, INCIDENTS, incident_note, sa.true()),
)
