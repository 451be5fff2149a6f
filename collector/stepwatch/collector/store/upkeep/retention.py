"""Retention: removes the data of jobs without recent writes, a few rows at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import sqlalchemy as sa

from stepwatch.collector.quantities import size
from stepwatch.collector.store import partitions, schema
from stepwatch.collector.store.database import begin_writing
from stepwatch.collector.store.incidents.outbox import Outbox
from stepwatch.collector.store.nodes import NodeReports
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.upkeep.counts import SEGMENTS, Upkeep
from stepwatch.collector.store.upkeep.removal import Going, Keep, Removed, going, may_go
from stepwatch.collector.store.views import StoredViews
from stepwatch.signals.clock import Clock

logger = logging.getLogger(__name__)

AT_ONCE = 256
"""Number of rows per transaction: other writers wait no longer than that."""
PAGES_AT_ONCE = 16384
"""Number of free 4 KiB pages to release after a transaction."""
FIRST_S, EVERY_S = 300.0, 3600.0
"""Time until a collector's first removal after its start, and the interval.

At the first removal the collector has saved every restored job's state, so nothing is removed that
only a log holds.
"""
BREATH_S = 0.02
"""Pause between two transactions, in which others get an SQLite file's lock."""


def summary(removed: list[Removed]) -> str:
    """Return the removed rows in a few words."""
    rows, jobs = sum(item.rows for item in removed), len({item.job for item in removed})
    return f"{rows} rows of {jobs} jobs, {size(sum(item.bytes for item in removed))}"


class Retention:
    """Removes expired data.

    `wait` sleeps between two transactions and returns whether to stop; `upkeep` counts the removed
    rows.
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
        """Remove data that `keep` lets expire, periodically, until `wait` says to stop."""
        outage, pause = Outage("remove old data"), FIRST_S
        while not self._wait(pause):
            pause = EVERY_S
            try:
                self.tidy()
                NodeReports(self._engine).prune(clock.wall_ns())
                removed = self.prune(keep, clock.wall_ns())
            except sa.exc.SQLAlchemyError as error:
                outage.noted(error)
                continue
            outage.over()
            if removed:
                logger.info("removed old data: %s", summary(removed))

    def tidy(self) -> None:
        """Remove obsolete views and notices.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database does not answer.
        """
        StoredViews(self._engine).prune()
        Outbox(self._engine).prune()

    def plan(self, keep: Keep, now_ns: int) -> list[Removed]:
        """Return what `prune` would remove, without changes."""
        with self._engine.connect() as connection:
            removals = [
                expiring.counted(connection) for expiring in going(connection, keep, now_ns)
            ]
        return [item for items in removals for item in items]

    def pinned(self, keep: Keep, now_ns: int) -> list[Removed]:
        """Return the rows that only incidents keep.

        Without them `prune` would remove these, too.
        """
        with self._engine.connect() as connection:
            removals = [expiring.pinned(connection) for expiring in going(connection, keep, now_ns)]
        return [item for items in removals for item in items]

    def prune(self, keep: Keep, now_ns: int) -> list[Removed]:
        """Remove data that `keep` lets expire, and return its space to the file system.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database does not answer; earlier removals are
                final.
        """
        removed = []
        with self._engine.connect() as connection:
            planned = [
                (expiring, expiring.counted(connection))
                for expiring in going(connection, keep, now_ns)
            ]
        for expiring, items in planned:
            if expiring.data_class.kind == SEGMENTS and self._engine.dialect.name == "postgresql":
                is_pinned = sa.exists().where(schema.incident.c.job == schema.job.c.name)
                free = may_go(expiring.before_ns)
                free = sa.and_(free, ~is_pinned) if expiring.pins else free
                partitions.drop_days(self._engine, free, expiring.before_ns)
            removed += [item for item in items if self._remove(expiring, item.job)]
        self._upkeep.retained([(item.kind, item.rows, item.bytes) for item in removed], now_ns)
        return removed

    def _remove(self, expiring: Going, job: str) -> bool:
        """Remove the planned rows in batches.

        Return False if the job became active, or at a stop.
        """
        while (removed := self._remove_some(expiring, job)) == AT_ONCE:
            if self._wait(BREATH_S):
                return False
        return removed is not None

    def _remove_some(self, expiring: Going, job: str) -> int | None:
        """Remove a batch of a job's rows and return its size.

        None if the job may no longer be removed.
        """
        with self._engine.begin() as connection:
            begin_writing(connection)
            removed = expiring.remove_some(connection, job, AT_ONCE)
        if removed and self._engine.dialect.name == "sqlite":
            shrink_file(self._engine)
        return removed


def shrink_file(engine: sa.Engine) -> None:
    """Return free pages of an SQLite file to the file system, if the file supports it."""
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        # The driver's `execute` stops after the first step, which frees one page.
        driver.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
