"""What the store removes, and when: whole jobs that wrote nothing for days, a little at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.quantities import size
from stepwatch.collector.store import partitions, schema
from stepwatch.collector.store.database import begin_writing
from stepwatch.collector.store.outage import Outage
from stepwatch.collector.store.upkeep.counts import (
    BUNDLES,
    INCIDENTS,
    SEGMENTS,
    SLICES,
    SNAPSHOTS,
    Upkeep,
)
from stepwatch.signals.clock import Clock

logger = logging.getLogger(__name__)

AT_ONCE = 256
"""Rows removed in one transaction: whoever writes waits no longer than for those."""
PAGES_AT_ONCE = 16384
"""Free pages of 4 KiB given back after one of them."""
FIRST_S, EVERY_S = 300.0, 3600.0
"""When a collector removes for the first time after its start, and how often from then on. By then
it has saved the state of every job that it read back: nothing goes that only a log knew."""
BREATH_S = 0.02
"""Time between two transactions in which others get the lock of an SQLite file."""


@dataclass(frozen=True)
class Keep:
    """Days for which each class of data is kept after its job last wrote; None: for ever.

    The newest snapshot of a job stays as long as its slices do: it holds the totals, which would
    be lower without it. An older one goes with the segments. No class is removed of a job that
    wrote within the last day, or that has an open incident.
    """

    segments: float | None = 14.0
    slices: float | None = None
    incidents: float | None = None

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


def summary(removed: list[Removed]) -> str:
    """What was removed, in a few words."""
    rows, jobs = sum(item.rows for item in removed), len({item.job for item in removed})
    return f"{rows} rows of {jobs} jobs, {size(sum(item.bytes for item in removed))}"


class Retention:
    """Removes what need not be kept.

    `wait` lets so many seconds pass between two transactions, and says whether to stop; `upkeep`
    counts what is removed.
    """

    def __init__(
        self,
        engine: sa.Engine,
        wait: Callable[[float], bool] | None = None,
        upkeep: Upkeep | None = None,
    ) -> None:
        self._engine = engine
        self._upkeep = upkeep or Upkeep(engine)
        self._wait = wait or threading.Event().wait

    def run(self, keep: Keep, clock: Clock) -> None:
        """Remove what `keep` does not keep, now and then, until `wait` says to stop."""
        outage, pause = Outage("remove old data"), FIRST_S
        while not self._wait(pause):
            pause = EVERY_S
            try:
                removed = self.prune(keep, clock.wall_ns())
            except sa.exc.SQLAlchemyError as error:
                outage.noted(error)
                continue
            outage.over()
            if removed:
                logger.info("removed old data: %s", summary(removed))

    def plan(self, keep: Keep, now_ns: int) -> list[Removed]:
        """What `prune` would remove; changes nothing."""
        return [item for _, item in self._planned(keep, now_ns)]

    def prune(self, keep: Keep, now_ns: int) -> list[Removed]:
        """Remove what `keep` does not keep, and give its room back to the file system.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database does not answer; what is removed so far
                stays removed.
        """
        planned = self._planned(keep, now_ns)
        before_ns = keep.before_ns(SEGMENTS, now_ns)
        if self._engine.dialect.name == "postgresql" and before_ns is not None:
            partitions.drop_days(self._engine, _may_go(before_ns), before_ns)
        removed = [item for going, item in planned if self._remove(going, item.job)]
        self._upkeep.retained([(item.kind, item.rows, item.bytes) for item in removed], now_ns)
        return removed

    def _planned(self, keep: Keep, now_ns: int) -> list[tuple[_Going, Removed]]:
        found = []
        with self._engine.connect() as connection:
            for each in _CLASSES:
                before_ns = keep.before_ns(each.kept_as, now_ns)
                if before_ns is not None:
                    going = _Going(each, before_ns)
                    found += [(going, item) for item in going.counted(connection)]
        return found

    def _remove(self, going: _Going, job: str) -> bool:
        """Remove what was planned, a little at a time; False if the job came back, or at a stop."""
        while (removed := self._remove_some(going, job)) == AT_ONCE:
            if self._wait(BREATH_S):
                return False
        return removed is not None

    def _remove_some(self, going: _Going, job: str) -> int | None:
        """Remove a few rows of a job and return how many; None if the job may not go any more."""
        with self._engine.begin() as connection:
            begin_writing(connection)
            removed = going.remove_some(connection, job)
        if removed and self._engine.dialect.name == "sqlite":
            self._shrink_file()
        return removed

    def _shrink_file(self) -> None:
        """Give free pages of an SQLite file back, where it was made for that."""
        with self._engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            # The driver's `execute` stops after the first step, which frees one page.
            driver.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")


def _may_go(before_ns: int) -> sa.ColumnElement[bool]:
    """The condition on a job's row under which data of the job is removed."""
    incident = schema.incident
    opened = sa.exists().where(incident.c.job == schema.job.c.name, incident.c.state == "open")
    return sa.and_(schema.job.c.last_received_ns < before_ns, ~opened)


class _Class(NamedTuple):
    """Rows of `table` where `goes`, of the jobs whose class `kept_as` goes."""

    kind: str
    kept_as: str
    table: sa.Table
    goes: sa.ColumnElement[bool]


@dataclass(frozen=True)
class _Going:
    """A class of data, and before when (ns) a job wrote last of which it goes."""

    of: _Class
    before_ns: int

    def counted(self, connection: sa.Connection) -> list[Removed]:
        """What goes, by job."""
        table = self.of.table
        query = sa.select(table.c.job, sa.func.count(), sa.func.coalesce(_bytes(table), 0))
        jobs = sa.select(schema.job.c.name).where(_may_go(self.before_ns))
        query = query.where(self.of.goes, table.c.job.in_(jobs))
        rows = connection.execute(query.group_by(table.c.job).order_by(table.c.job))
        return [Removed(self.of.kind, job, int(count), int(total)) for job, count, total in rows]

    def remove_some(self, connection: sa.Connection, job: str) -> int | None:
        """Remove a few rows of a job and return how many; None if the job may not go any more."""
        table, of_job = self.of.table, schema.job.c.name == job
        key = list(table.primary_key) or [table.c.job, table.c.position]
        still = sa.select(schema.job.c.name).where(of_job, _may_go(self.before_ns))
        if connection.execute(still.with_for_update()).first() is None:
            return None
        some = sa.select(*key).where(self.of.goes, table.c.job == job).order_by(*key)
        remove = sa.delete(table).where(sa.tuple_(*key).in_(some.limit(AT_ONCE)))
        removed = connection.execute(remove).rowcount
        if table is schema.bundle:
            _forget_keys(connection, job)
        return removed


def _forget_keys(connection: sa.Connection, job: str) -> None:
    """Forget what was in the bundles of a job once it has none."""
    bundle, known = schema.bundle, schema.bundle_key
    kept = sa.exists().where(bundle.c.job == job)
    connection.execute(sa.delete(known).where(known.c.job == job, ~kept))


def _bytes(table: sa.Table) -> sa.ColumnElement[Any]:
    if "size" in table.c:
        return sa.func.sum(table.c.size)
    return sa.func.sum(sa.func.length(table.c.payload)) if "payload" in table.c else sa.null()


def _has_newer() -> sa.ColumnElement[bool]:
    """Of a snapshot: whether its job has a newer one."""
    newer, table = schema.snapshot.alias("newer"), schema.snapshot
    return sa.exists().where(newer.c.job == table.c.job, newer.c.id > table.c.id)


_CLASSES = (
    _Class(SEGMENTS, SEGMENTS, schema.segment, sa.true()),
    _Class(BUNDLES, SEGMENTS, schema.bundle, sa.true()),
    _Class(SNAPSHOTS, SEGMENTS, schema.snapshot, _has_newer()),
    _Class(SLICES, SLICES, schema.sli_slice, sa.true()),
    _Class(SNAPSHOTS, SLICES, schema.snapshot, ~_has_newer()),
    _Class(INCIDENTS, INCIDENTS, schema.incident, schema.incident.c.state != "open"),
)
