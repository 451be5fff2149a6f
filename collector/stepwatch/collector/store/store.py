"""The collector's reads and writes; every write is one transaction."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.accounts import (
    AccountDay,
    Generation,
    newest_generations,
    note_generations,
    put_account_days,
    read_account_days,
    read_generations,
)
from stepwatch.collector.store.database import (
    REFUSALS,
    begin_writing,
    hold_moment,
    open_database,
    refusal,
)
from stepwatch.collector.store.incidents import Incidents, put_incidents
from stepwatch.collector.store.incidents.outbox import Notice, Outbox, add_notices
from stepwatch.collector.store.leases import Lease, fenced
from stepwatch.collector.store.log import read_segments, whole_after
from stepwatch.collector.store.nodes import NodeReports
from stepwatch.collector.store.partitions import Partitions
from stepwatch.collector.store.payload import StoredPayload
from stepwatch.collector.store.positions import SegmentInserts
from stepwatch.collector.store.profiles import Profiles
from stepwatch.collector.store.response import Notes, Silences
from stepwatch.collector.store.schema import SegmentRow
from stepwatch.collector.store.slices import Slice, put_slices, read_slices, read_sums, slices_of
from stepwatch.collector.store.snapshots import Snapshots
from stepwatch.collector.store.undecoded import Undecoded
from stepwatch.collector.store.upkeep.counts import Upkeep
from stepwatch.collector.store.views import StoredViews
from stepwatch.signals.arrays import Matrix, Rows
from stepwatch.signals.errors import StoreError
from stepwatch.signals.wire import Segment

_QUARANTINE_HEAD = 4096
_QUARANTINE_LIMIT = 1000
"""Bytes stored per rejected segment, and maximum number of rejected segments, newest first."""
_NAMES_AT_ONCE = 500
_POSITION = sa.select(schema.job.c.name, schema.job.c.position).where(
    schema.job.c.name == sa.bindparam("name")
)
_POSITIONS = sa.select(schema.job.c.name, schema.job.c.position).where(
    schema.job.c.name.in_(sa.bindparam("names", expanding=True))
)
"""Built once: building takes as long as executing, and each evaluation executes it.

A statement with a name list is expanded each time; one with a single name is not.
"""


class StoredSegment(NamedTuple):
    """A received segment: decoded, with its bytes."""

    segment: Segment
    data: bytes


class Added(NamedTuple):
    """The outcome for a segment.

    It is new at a position in its job's log, stored already (position 0), or refused for good with
    a reason.
    """

    new: bool
    refusal: str = ""
    position: int = 0


class Store:
    """The database behind a collector.

    `url` is an SQLAlchemy URL; `Store.sqlite(path)` opens the usual one. `undecoded` holds segments
    that this version cannot read, `snapshots` job states, `views` answers for other collectors,
    `outbox` the pending notices of `incidents`, `nodes` node faults, `silences` and `notes` the
    human response to incidents, `profiles` requested profiles, and `upkeep` maintenance counts.

    Raises:
        StoreError: the store cannot be opened, or a newer stepwatch wrote it.
    """

    def __init__(self, url: str | sa.URL) -> None:
        self._engine = open_database(url)
        self.undecoded = Undecoded(self._engine)
        self.snapshots = Snapshots(self._engine)
        self.views = StoredViews(self._engine)
        self.outbox = Outbox(self._engine)
        self.incidents = Incidents(self._engine)
        self.nodes = NodeReports(self._engine)
        self.silences = Silences(self._engine)
        self.notes = Notes(self._engine)
        self.profiles = Profiles(self._engine)
        self.upkeep = Upkeep(self._engine)
        self._partitions = Partitions(self._engine)
        self._inserts = SegmentInserts(self._engine.dialect)

    @classmethod
    def sqlite(cls, path: Path) -> Store:
        """Open the SQLite file at `path`, and create its directory.

        Raises:
            StoreError: the directory or file cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(
                f"cannot create {path.parent}: {error.strerror}; pass --store with a writable path"
            ) from error
        return cls(sa.URL.create("sqlite", database=str(path)))

    @property
    def engine(self) -> sa.Engine:
        """The database, for maintenance: size, copies, retention."""
        return self._engine

    def add_segments(self, segments: Sequence[StoredSegment], received_ns: int) -> list[Added]:
        """Store segments in one transaction, except those that the database refuses for good.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; nothing was stored.
        """
        if not segments:
            return []
        rows = [SegmentRow.from_segment(*stored, received_ns) for stored in segments]
        self._partitions.make({row.wall_day for row in rows}, received_ns // schema.DAY_NS)
        try:
            with self._engine.begin() as connection:
                return [_added(position) for position in self._inserts.add(connection, rows)]
        except REFUSALS as error:
            if refusal(error) is None:
                raise
        with self._engine.begin() as connection:
            begin_writing(connection)
            return [self._add_or_refuse(connection, row) for row in rows]

    def _add_or_refuse(self, connection: sa.Connection, row: SegmentRow) -> Added:
        try:
            with connection.begin_nested():
                (position,) = self._inserts.add(connection, [row])
                return _added(position)
        except REFUSALS as error:
            reason = refusal(error)
            if reason is None:
                raise
            return Added(new=False, refusal=reason)

    def quarantine(self, rejected: Iterable[tuple[bytes, str]], received_ns: int) -> None:
        """Store the head of each unreadable segment, for debugging."""
        rows = [
            {
                "received_ns": received_ns,
                "reason": reason[:300].replace("\0", "\ufffd"),  # no NUL in PostgreSQL
                "size": len(data),
                "head": data[:_QUARANTINE_HEAD],
            }
            for data, reason in rejected
        ]
        if not rows:
            return
        table = schema.quarantine
        with self._engine.begin() as connection:
            connection.execute(sa.insert(table), rows)
            newest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar_one()
            connection.execute(sa.delete(table).where(table.c.id <= newest - _QUARANTINE_LIMIT))

    def segments(
        self, job: str, *, after_position: int = 0, limit: int | None = None
    ) -> Generator[StoredPayload]:
        """Yield at most `limit` segments of a job after `after_position`, ordered by position.

        Positions rise by one from 1, in storage order; removed segments leave gaps. A few are read
        at a time, as each may be large; the caller closes the generator to stop early.
        """
        return read_segments(self._engine, job, after_position, limit)

    def whole_after(self, job: str) -> int:
        """Return the newest position that is missing in a job's log, 0 if none is."""
        return whole_after(self._engine, job)

    def position(self, job: str) -> int:
        """Return a job's newest position, 0 without segments."""
        query = sa.select(schema.job.c.position).where(schema.job.c.name == job)
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar_one_or_none() or 0)

    def positions(self, jobs: Collection[str]) -> dict[str, int]:
        """Return the newest position by job, for the jobs in the store."""
        names, positions = sorted(jobs), dict[str, int]()
        with self._engine.connect() as connection:
            for start in range(0, len(names), _NAMES_AT_ONCE):
                chunk = names[start : start + _NAMES_AT_ONCE]
                is_single = len(chunk) == 1
                rows = connection.execute(
                    _POSITION if is_single else _POSITIONS,
                    {"name": chunk[0]} if is_single else {"names": chunk},
                )
                positions.update((name, int(position)) for name, position in rows)
        return positions

    def has_sent(self, job: str, node: str) -> bool:
        """Return whether a job's log holds a segment from a node."""
        tables = schema.segment, schema.bundle_key
        with self._engine.connect() as connection:
            return any(
                connection.scalar(
                    sa.select(sa.literal(1))
                    .where(table.c.job == job, table.c.node == node)
                    .limit(1)
                )
                for table in tables
            )

    def jobs(self, limit: int = 1000) -> list[str]:
        """Return the names of the jobs that wrote last, in ascending order of their last write."""
        table = schema.job
        query = sa.select(table.c.name).where(table.c.position > 0)
        query = query.order_by(table.c.last_received_ns.desc(), table.c.name).limit(limit)
        with self._engine.connect() as connection:
            return [row.name for row in connection.execute(query)][::-1]

    def save_evaluation(
        self,
        job: str,
        slices: Iterable[tuple[str, Slice]],
        incidents: Iterable[dict[str, Any]],
        lease: Lease | None = None,
        notices: Iterable[Notice] = (),
        days: Iterable[AccountDay] = (),
    ) -> None:
        """Write one evaluation's changed slices (sli, slice), incidents, notices and account days.

        All or nothing. Without incidents and notices it does not wait for the disk: slices and days
        are computed from the log.

        Raises:
            LeaseLostError: another collector holds `lease`; nothing was written.
        """
        rows = [{"job": job, "sli": sli, **part._asdict()} for sli, part in slices]
        incidents, notices, days = list(incidents), list(notices), list(days)
        if not rows and not incidents and not days:
            return
        with fenced(self._engine, lease, waits=bool(incidents or notices)) as connection:
            put_slices(connection, rows)
            put_incidents(connection, incidents)
            add_notices(connection, notices)
            put_account_days(connection, days)

    def account_days(self, from_s: int, until_s: int, job: str | None = None) -> list[AccountDay]:
        """Return the account days that begin in [`from_s`, `until_s`), for one job or all."""
        return read_account_days(self._engine, from_s, until_s, job)

    def slice_sums(
        self, sli: str, moments: Sequence[int], since_s: int, job: str | None = None
    ) -> dict[str, Matrix]:
        """Return an SLI's good and total device-seconds before each of `moments`, by job.

        (moments, 2).

        `moments` are Unix seconds. The sums cover jobs with an account from `since_s` on, or one
        job.
        """
        with self._engine.connect() as connection:
            hold_moment(connection)
            return read_sums(connection, sli, moments, since_s, job)

    def note_generations(
        self, objectives: Mapping[str, tuple[str, dict[str, Any]]], now_s: float
    ) -> dict[str, Generation]:
        """Begin a generation for each SLO with a new revision; return those in force, by name.

        `objectives` maps a name to its revision and document.
        """
        return note_generations(self._engine, objectives, now_s)

    def newest_generations(self) -> dict[str, Generation]:
        """Return each SLO's newest generation, by name."""
        return newest_generations(self._engine)

    def generations(self, slo: str) -> list[Generation]:
        """Return an SLO's generations, oldest first."""
        return read_generations(self._engine, slo)

    def slices(self, job: str, sli: str) -> list[Slice]:
        """Return one SLI's slices in time order."""
        return slices_of(self.slice_rows(job, sli))

    def slice_rows(self, job: str, sli: str) -> Rows:
        """Return one SLI's slices as a `SLICE` array."""
        with self._engine.connect() as connection:
            hold_moment(connection)
            return read_slices(connection, job, sli)

    def payload_bytes(self, job: str) -> tuple[int, int]:
        """Return a job's (segment count, payload bytes) in storage."""
        segment, bundle = schema.segment, schema.bundle
        size = sa.func.coalesce(sa.func.sum(sa.func.length(segment.c.payload)), 0)
        loose = sa.select(sa.func.count(), size).where(segment.c.job == job)
        sums = [sa.func.coalesce(sa.func.sum(bundle.c[name]), 0) for name in ("segments", "size")]
        with self._engine.connect() as connection:
            count, total = connection.execute(loose).one()
            bundled, more = connection.execute(sa.select(*sums).where(bundle.c.job == job)).one()
            return int(count + bundled), int(total + more)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _added(position: int) -> Added:
    return Added(position > 0, "", position)
