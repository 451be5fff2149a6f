"""Merges small segments into bundles, and slices into blocks, in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from stepwatch.collector.quantities import size
from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles.making import Behind, BundleTotals, Bundling, choose
from stepwatch.collector.store.bundles.objects import ObjectsUnreachable
from stepwatch.collector.store.database import begin_writing
from stepwatch.collector.store.outages.outage import Outage
from stepwatch.collector.store.slices.packing import pack_rows
from stepwatch.collector.store.upkeep.counts import Upkeep
from stepwatch.collector.store.upkeep.payloads import Payloads
from stepwatch.collector.store.upkeep.retention import shrink_file
from stepwatch.collector.store.upkeep.turn import turn
from stepwatch.signals.clock import NANOSECONDS, Clock

logger = logging.getLogger(__name__)

EVERY_S = 60.0
SLICES_EVERY_S = 600.0
"""Slices: an SLI gets 60 rows in that time, and counting all rows takes a second at 5 million."""
BREATHS = 4.0
"""Pause after a bundle, as a multiple of the time it took."""
AGE_S, PARTLY_S = 600.0, 3600.0


@dataclass(frozen=True)
class Compaction:
    """Age limits in seconds for segments that go into bundles.

    `age_s` is the minimum age, None disables bundling. `partly_s` is the minimum age of the oldest
    segment in a bundle that is not full.
    """

    age_s: float | None = AGE_S
    partly_s: float = PARTLY_S


class Compactor:
    """Bundles segments that a snapshot already includes: no restart reads them.

    `wait` sleeps for some seconds and returns whether to stop; `upkeep` counts. With `payloads`
    each bundle is an object, written before the database refers to it.
    """

    def __init__(
        self,
        engine: sa.Engine,
        wait: Callable[[float], bool] | None = None,
        upkeep: Upkeep | None = None,
        payloads: Payloads | None = None,
    ) -> None:
        self._payloads = payloads
        self._engine = engine
        self._upkeep = upkeep or Upkeep(engine)
        self._wait = wait or threading.Event().wait

    def run(self, options: Compaction, clock: Clock) -> None:
        """Compact periodically, until `wait` says to stop."""
        outage, swept_ns, packed_ns = Outage("put segments together"), 0, 0
        while options.age_s is not None and not self._wait(EVERY_S):
            now_ns = clock.wall_ns()
            try:
                compacted = self.compact(options, now_ns)
                if now_ns - packed_ns > SLICES_EVERY_S * NANOSECONDS:
                    packed_ns = now_ns
                    self.pack_slices()
                if self._payloads is not None and now_ns - swept_ns > schema.DAY_NS:
                    swept_ns = now_ns
                    self._payloads.remove_orphans(now_ns / NANOSECONDS)
            except sa.exc.SQLAlchemyError as error:
                self._upkeep.object_failures += isinstance(error, ObjectsUnreachable)
                outage.noted(error)
                continue
            except (
                ArithmeticError,
                LookupError,
                OSError,
                RuntimeError,
                TypeError,
                ValueError,
            ) as error:
                # From one anomalous segment, or an anomalous answer; the next round may succeed.
                logger.error("cannot put segments together", exc_info=error)
                continue
            outage.over()
            if compacted.segments:
                size_before, size_after = size(compacted.bytes_before), size(compacted.bytes_after)
                logger.info(
                    "put %d segments of %s together: %d bundles of %s",
                    *(compacted.segments, size_before, compacted.bundles, size_after),
                )

    def pack_slices(self) -> int:
        """Pack old rows of SLI slices; return how many.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database does not answer; uncommitted work is
                undone.
        """
        total, began = 0, time.monotonic()
        with turn(self._engine) as has_turn:
            for moved in pack_rows(self._engine) if has_turn else ():
                total += moved
                if self._wait(BREATHS * (time.monotonic() - began)):
                    break
                began = time.monotonic()
        if total and self._engine.dialect.name == "sqlite":
            shrink_file(self._engine)
        return total

    def compact(self, options: Compaction, now_ns: int) -> BundleTotals:
        """Bundle all segments that are old enough.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database does not answer; uncommitted work is
                undone.
        """
        total = BundleTotals()
        if options.age_s is None:
            return total
        with turn(self._engine) as has_turn:
            for behind in self._jobs() if has_turn else []:
                for bundled in self._compact_job(behind, options, now_ns):
                    total = total.plus(bundled)
        if total.bundles and self._engine.dialect.name == "sqlite":
            shrink_file(self._engine)
        return total

    def _jobs(self) -> list[Behind]:
        """Return the jobs whose newest snapshot includes unbundled segments."""
        job, snapshot = schema.job, schema.snapshot
        newest = sa.func.max(snapshot.c.position)
        query = sa.select(job.c.name, job.c.bundled, newest)
        query = query.join_from(job, snapshot, snapshot.c.job == job.c.name)
        query = query.group_by(job.c.name, job.c.bundled).having(newest > job.c.bundled)
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(job.c.name))
            return [Behind(name, int(mark), int(until)) for name, mark, until in rows]

    def _compact_job(
        self, behind: Behind, options: Compaction, now_ns: int
    ) -> Iterator[BundleTotals]:
        """Build one bundle after the other, until none is due or a stop."""
        ages = [now_ns - int((s or 0.0) * NANOSECONDS) for s in (options.age_s, options.partly_s)]
        while True:
            began = time.monotonic()
            with self._engine.connect() as connection:
                chosen = choose(connection, behind, before_ns=ages[0], partly_before_ns=ages[1])
                if not chosen:
                    return
                bundling = Bundling(connection, behind, chosen)
            if self._payloads is not None:
                bundling.put(self._payloads.objects, self._payloads.base())
            if not self._store(bundling, now_ns):
                return
            yield bundling.totals
            behind = bundling.next
            if self._wait(BREATHS * (time.monotonic() - began)):
                return

    def _store(self, bundling: Bundling, now_ns: int) -> bool:
        """Store a bundle; return False if the job's log changed meanwhile."""
        with self._engine.connect() as connection:
            begin_writing(connection)
            if not bundling.store(connection):
                connection.rollback()
                return False
            self._upkeep.compacted(connection, bundling.totals, now_ns)
            connection.commit()
        self._upkeep.totals = self._upkeep.totals.plus(bundling.totals)
        return True
