"""Adds each segment once, at its job's next position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles.keys import BundledKeys
from stepwatch.collector.store.database import insert
from stepwatch.collector.store.schema import COLUMNS, Key, SegmentRow, key_of
from stepwatch.signals.wire import SegmentKey

_job_of: Callable[[SegmentRow], str] = itemgetter(0)
_of_spool = itemgetter(slice(len(SegmentKey._fields) - 1))


_CLAIMED = ("name", "position", "first_received_ns", "last_received_ns")


class _Plain:
    """A statement in the driver's own form, with values in the order of `columns`."""

    def __init__(self, statement: sa.Insert, dialect: sa.Dialect, columns: tuple[str, ...]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=list(columns))
        self._text = str(compiled)
        order = getattr(compiled, "positiontup", None)
        self._columns = columns if order is None else None
        """Value names, for a driver with named parameters."""
        if order is not None and tuple(order) != columns:
            raise ValueError(f"{self._text} takes {order} and not {columns}")

    def execute(
        self, connection: sa.Connection, rows: Iterable[tuple[Any, ...]]
    ) -> sa.CursorResult[Any]:
        """Execute the statement for some rows; only a single row returns results."""
        values: list[Any] = list(rows)
        if self._columns is not None:
            values = [dict(zip(self._columns, row, strict=True)) for row in values]
        return connection.exec_driver_sql(
            self._text,
            values if len(values) > 1 else values[0],
            execution_options={"preserve_rowcount": True},
        )


class SegmentInserts:
    """The statements that insert segments into a database."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self._bundled = BundledKeys()
        jobs = insert(dialect, schema.job)
        new = jobs.excluded
        self._claim = jobs.on_conflict_do_update(
            index_elements=["name"],
            set_={
                "position": schema.job.c.position + new.position,
                "last_received_ns": new.last_received_ns,
            },
        ).returning(schema.job.c.name, schema.job.c.position, schema.job.c.bundled)
        # SQLAlchemy takes 40 us to process a row's values; the database takes 20 us to store them.
        plain = insert(dialect, schema.segment).on_conflict_do_nothing()
        self._insert = _Plain(plain, dialect, COLUMNS)
        self._claim_one = _Plain(self._claim, dialect, _CLAIMED)

    def add(self, connection: sa.Connection, rows: Sequence[SegmentRow]) -> list[int]:
        """Insert rows in order; return each row's position, 0 for a duplicate.

        Among rows with equal keys the first is new: [a, b, a], with b stored already and 4 segments
        in the log, gives [5, 0, 0]. Concurrent inserts for the same jobs wait until the transaction
        ends.
        """
        first: dict[Key, SegmentRow] = {}
        for row in rows:
            first.setdefault(key_of(row), row)
        if not rows or len(first) == len(rows):
            return self._add_different(connection, rows)
        positions = self._add_different(connection, list(first.values()))
        placed = dict(zip(first, positions, strict=True))
        return [placed.pop(key_of(row), 0) for row in rows]

    def _add_different(self, connection: sa.Connection, rows: Sequence[SegmentRow]) -> list[int]:
        """Insert rows with distinct keys; return each row's position, 0 if it is stored already."""
        if not rows:
            return []
        counts = Counter(map(_job_of, rows))
        last_positions, marks = self._claim_positions(connection, counts, rows)
        bundled = self._bundled.among(connection, rows, marks)
        positions = _numbered(rows, last_positions)
        # Usually all are new, and the row count confirms it.
        if not bundled and self._inserted(connection, rows, positions):
            return positions
        for job, position in last_positions.items():
            connection.execute(_beyond(job, position))
        stored_keys = _stored_keys(connection, rows) | bundled
        fresh = [row for row in rows if key_of(row) not in stored_keys]
        placed = dict(zip(map(key_of, fresh), _numbered(fresh, last_positions), strict=True))
        if fresh:
            columns = (row.placed(placed[key_of(row)]) for row in fresh)
            named = [dict(zip(COLUMNS, row_values, strict=True)) for row_values in columns]
            connection.execute(sa.insert(schema.segment), named)
        counts = Counter(map(_job_of, fresh))
        for job, position in last_positions.items():
            change = sa.update(schema.job).where(schema.job.c.name == job)
            connection.execute(change.values(position=position + counts[job]))
        return [placed.get(key_of(row), 0) for row in rows]

    def _inserted(
        self, connection: sa.Connection, rows: Sequence[SegmentRow], positions: list[int]
    ) -> bool:
        """Insert rows; return whether all were new."""
        values = map(SegmentRow.placed, rows, positions)
        return self._insert.execute(connection, values).rowcount == len(rows)

    def _claim_positions(
        self, connection: sa.Connection, counts: Mapping[str, int], rows: Sequence[SegmentRow]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Reserve as many positions per job as it has rows.

        Returns each job's last position before the reserved ones, and its last bundled position.
        Job rows are locked ordered by name, so two collectors with the same jobs wait for each
        other at the first.
        """
        received = rows[0].received_ns
        claims = [(name, counts[name], received, received) for name in sorted(counts)]
        if len(claims) == 1:
            claimed = self._claim_one.execute(connection, claims).all()
        else:
            named = [dict(zip(_CLAIMED, claim, strict=True)) for claim in claims]
            claimed = connection.execute(self._claim, named).all()
        last_positions = {row.name: row.position - counts[row.name] for row in claimed}
        return last_positions, {row.name: row.bundled for row in claimed}


def _numbered(rows: Sequence[SegmentRow], last_positions: Mapping[str, int]) -> list[int]:
    """Return the rows' positions after `last_positions`.

    Rows for jobs [a, b, a] with {a: 4, b: 0} get [5, 1, 6].
    """
    if len(last_positions) == 1:
        (last,) = last_positions.values()
        return list(range(last + 1, last + 1 + len(rows)))
    counted = dict(last_positions)
    positions = []
    for row in rows:
        counted[row.job] += 1
        positions.append(counted[row.job])
    return positions


def _beyond(job: str, position: int) -> sa.Delete:
    table = schema.segment
    return sa.delete(table).where(table.c.job == job, table.c.position > position)


def _stored_keys(connection: sa.Connection, rows: Sequence[SegmentRow]) -> set[Key]:
    """Return the keys from `rows` that are stored; one statement per agent spool."""
    table = schema.segment
    keys: set[Key] = set()
    for spool, members in groupby(sorted(rows, key=key_of), _of_spool):
        sequences = [row.sequence for row in members]
        fields = zip(SegmentKey._fields[:-1], spool, strict=True)
        query = sa.select(table.c.sequence).where(
            *(table.c[name] == value for name, value in fields), table.c.sequence.in_(sequences)
        )
        keys.update((*spool, sequence) for (sequence,) in connection.execute(query))
    return keys
