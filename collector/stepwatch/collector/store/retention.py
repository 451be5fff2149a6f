"""What the store removes, and when: whole jobs that wrote nothing for days, a little at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from stepwatch.collector.quantities import size
from stepwatch.collector.store import partitions, schema
from stepwatch.collector.store.database import begin_writing
from stepwatch.collector.store.outage import Outage
from stepwatch.signals.clock import Clock

logger = logging.getLogger(__name__)

AT_ONCE = 256
"""Rows removed in one transaction: whoever writes waits no longer than for those."""
PAGES_AT_ONCE = 16384
"""Free pages of 4 KiB given back after one of them."""
FIRST_S, EVERY_S = 60.0, 3600.0
"""When a collector removes for the first time after its start, and how often from then on."""
BREATH_S = 0.02
"""Time between two transactions in which others get the lock of an SQLite file."""
SEGMENTS, SLICES, INCIDENTS = "segments", "slices", "incidents"


@dataclass(frozen=True)
class Keep:
    """Days for which each class of data is kept after its job last wrote; None: for ever.

    No class is removed of a job that wrote within the last day, or that has an open incident.
    """

    segments: float | None = 14.0
    slices: float | None = None
    incidents: float | None = None

    def classes(self, now_ns: int) -> Iterator[tuple[str, int]]:
        """Each class that is not kept for ever, and before when (ns) its jobs wrote last."""
        days = {SEGMENTS: self.segments, SLICES: self.slices, INCIDENTS: self.incidents}
        for name, kept in days.items():
            if kept is not None:
                yield name, now_ns - int(max(kept, 1.0) * schema.DAY_NS)


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

    `wait` lets so many seconds pass between two transactions, and says whether to stop.
    """

    def __init__(self, engine: sa.Engine, wait: Callable[[float], bool] | None = None) -> None:
        self._engine = engine
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
        found = []
        with self._engine.connect() as connection:
            for kind, before_ns in keep.classes(now_ns):
                table, of_class = _OF_CLASS[kind]
                jobs = sa.select(schema.job.c.name).where(_may_go(before_ns))
                query = sa.select(table.c.job, sa.func.count(), sa.func.coalesce(_bytes(table), 0))
                query = query.where(of_class, table.c.job.in_(jobs)).group_by(table.c.job)
                rows = connection.execute(query.order_by(table.c.job))
                found += [Removed(kind, job, int(count), int(total)) for job, count, total in rows]
        return found

    def prune(self, keep: Keep, now_ns: int) -> list[Removed]:
        """Remove what `keep` does not keep, and give its room back to the file system.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database does not answer; what is removed so far
                stays removed.
        """
        planned = self.plan(keep, now_ns)
        limits = dict(keep.classes(now_ns))
        if self._engine.dialect.name == "postgresql" and SEGMENTS in limits:
            partitions.drop_days(self._engine, _may_go(limits[SEGMENTS]), limits[SEGMENTS])
        return [item for item in planned if self._remove(item, limits[item.kind])]

    def _remove(self, item: Removed, before_ns: int) -> bool:
        """Remove what was planned, a little at a time; False if the job came back, or at a stop."""
        while (removed := self._remove_some(item.kind, item.job, before_ns)) == AT_ONCE:
            if self._wait(BREATH_S):
                return False
        return removed is not None

    def _remove_some(self, kind: str, job: str, before_ns: int) -> int | None:
        """Remove a few rows of a job and return how many; None if the job may not go any more."""
        table, of_class = _OF_CLASS[kind]
        key = list(table.primary_key) or [table.c.job, table.c.position]
        still = sa.select(schema.job.c.name).where(schema.job.c.name == job, _may_go(before_ns))
        some = sa.select(*key).where(of_class, table.c.job == job).order_by(*key).limit(AT_ONCE)
        with self._engine.begin() as connection:
            begin_writing(connection)
            if connection.execute(still.with_for_update()).first() is None:
                return None
            remove = sa.delete(table).where(sa.tuple_(*key).in_(some))
            removed = connection.execute(remove).rowcount
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


def _bytes(table: sa.Table) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.func.length(table.c.payload)) if "payload" in table.c else sa.literal(0)


_OF_CLASS: dict[str, tuple[sa.Table, sa.ColumnElement[bool]]] = {
    SEGMENTS: (schema.segment, sa.true()),
    SLICES: (schema.sli_slice, sa.true()),
    INCIDENTS: (schema.incident, schema.incident.c.state != "open"),
}
"""Table of a class, and which of its rows may go."""
