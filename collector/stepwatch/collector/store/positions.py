"""Segments are added at the next positions of their jobs, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles.keys import BundledKeys
from stepwatch.collector.store.database import insert
from stepwatch.signals.wire import SegmentKey

Row = dict[str, Any]
"""Columns of one segment, all but its position."""
_key_of = itemgetter(*SegmentKey._fields)
_of_spool = itemgetter("job", "attempt", "node", "spool")


class SegmentInserts:
    """The statements that add segments to a database."""

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
        # SQLAlchemy takes 40 us to look at the values of a row, its database 20 to store them.
        plain = insert(dialect, schema.segment).on_conflict_do_nothing().compile(dialect=dialect)
        self._insert = str(plain)
        self._values = itemgetter(*plain.positiontup) if plain.positiontup else dict

    def add(self, connection: sa.Connection, rows: list[Row]) -> list[int]:
        """Insert rows in their order; returns the position of each, 0 of one that is not new.

        Of rows with the same key the first is new: [a, b, a], with b there already and 4 segments
        stored, gives [5, 0, 0]. Whoever adds to the same jobs waits for the transaction's end.
        """
        first: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            first.setdefault(_key_of(row), row)
        fresh = set(map(id, self._add_different(connection, list(first.values()))))
        return [row["position"] if id(row) in fresh else 0 for row in rows]

    def _add_different(self, connection: sa.Connection, rows: list[Row]) -> list[Row]:
        """Insert rows with different keys; returns those that are new."""
        if not rows:
            return []
        before, marks = self._claim_positions(connection, rows)
        bundled = self._bundled.among(connection, rows, marks)
        _number(rows, before)
        # Nearly always all are new, and the count of them says so.
        if not bundled and self._inserted(connection, rows):
            return rows
        for job, position in before.items():
            connection.execute(_beyond(job, position))
        known = _known(connection, rows) | bundled
        fresh = [row for row in rows if _key_of(row) not in known]
        last = _number(fresh, before)
        if fresh:
            connection.execute(sa.insert(schema.segment), fresh)
        for job, position in last.items():
            change = sa.update(schema.job).where(schema.job.c.name == job)
            connection.execute(change.values(position=position))
        return fresh

    def _inserted(self, connection: sa.Connection, rows: list[Row]) -> bool:
        """Insert rows; whether all of them were new."""
        values = [self._values(row) for row in rows]
        result = connection.exec_driver_sql(
            self._insert, values, execution_options={"preserve_rowcount": True}
        )
        return result.rowcount == len(rows)

    def _claim_positions(
        self, connection: sa.Connection, rows: list[Row]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Give each job as many positions as it has rows; returns the last one before those, and
        the last one in a bundle.

        The rows of jobs are taken in the order of their names, so that two collectors that take
        the same ones wait for each other at the first.
        """
        counts = Counter(row["job"] for row in rows)
        received = {row["job"]: row["received_ns"] for row in rows}
        claims = [
            {
                "name": name,
                "position": counts[name],
                "first_received_ns": received[name],
                "last_received_ns": received[name],
            }
            for name in sorted(counts)
        ]
        found = connection.execute(self._claim, claims).all()
        before = {row.name: row.position - counts[row.name] for row in found}
        return before, {row.name: row.bundled for row in found}


def _number(rows: Iterable[Row], before: dict[str, int]) -> dict[str, int]:
    """Set the positions of rows from those `before`; returns the last one of each job.

    Rows of jobs [a, b, a] with {a: 4, b: 0} before get [5, 1, 6]; the last are {a: 6, b: 1}.
    """
    last = dict(before)
    for row in rows:
        last[row["job"]] += 1
        row["position"] = last[row["job"]]
    return last


def _beyond(job: str, position: int) -> sa.Delete:
    table = schema.segment
    return sa.delete(table).where(table.c.job == job, table.c.position > position)


def _known(connection: sa.Connection, rows: list[Row]) -> set[tuple[Any, ...]]:
    """Keys of those rows that the store has; one statement for each spool of an agent."""
    table = schema.segment
    found: set[tuple[Any, ...]] = set()
    for spool, members in groupby(sorted(rows, key=_key_of), _of_spool):
        sequences = [row["sequence"] for row in members]
        fields = zip(SegmentKey._fields[:-1], spool, strict=True)
        query = sa.select(table.c.sequence).where(
            *(table.c[name] == value for name, value in fields), table.c.sequence.in_(sequences)
        )
        found.update((*spool, sequence) for (sequence,) in connection.execute(query))
    return found
