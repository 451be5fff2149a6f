"""Which segments are in bundles: a segment that comes again is known, though its row is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert
from stepwatch.signals.wire import SegmentKey

_AT_ONCE = 100
"""Senders asked for in one statement."""
_MOST_KEPT = 1 << 17
"""Senders whose newest bundled sequence number is kept in memory, over all jobs."""
Sender = tuple[int, str, int]
"""Attempt, node and spool."""
_sender_of = itemgetter("attempt", "node", "spool")


class _Known(NamedTuple):
    """Of a job: the last position in a bundle, and the last bundled sequence of its senders."""

    mark: int
    last: dict[Sender, int]


class BundledKeys:
    """Ranges of sequence numbers in bundles, by sender.

    A sender counts on, so nearly always a number beyond the last bundled one says that a segment
    is not in a bundle, and no statement is needed. What is kept of a job holds as long as its row
    says that no more was bundled; whoever asks holds that row.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def among(
        self,
        connection: sa.Connection,
        rows: Iterable[Mapping[str, Any]],
        marks: Mapping[str, int],
    ) -> set[tuple[Any, ...]]:
        """Keys of those rows (columns of segments) that are in bundles.

        `marks` is the last position in a bundle of each job, 0 where none is.
        """
        found: set[tuple[Any, ...]] = set()
        asked = [row for row in rows if marks[row["job"]]]
        for job, members in groupby(sorted(asked, key=itemgetter("job")), itemgetter("job")):
            of_job = list(members)
            last = self._last(connection, job, marks[job], set(map(_sender_of, of_job)))
            suspects = [row for row in of_job if row["sequence"] <= last[_sender_of(row)]]
            found |= _bundled(connection, job, suspects)
        return found

    def _last(
        self, connection: sa.Connection, job: str, mark: int, senders: set[Sender]
    ) -> Mapping[Sender, int]:
        """The last bundled sequence number of each sender, -1 where there is none."""
        with self._lock:
            known = self._known.get(job)
            if known is None or known.mark != mark:
                if sum(len(each.last) for each in self._known.values()) > _MOST_KEPT:
                    self._known.clear()
                known = self._known[job] = _Known(mark, {})
        for row in _of_senders(connection, job, sorted(senders - known.last.keys())):
            sender = (row.attempt, row.node, row.spool)
            known.last[sender] = max(known.last.get(sender, -1), row.last)
        return {sender: known.last.setdefault(sender, -1) for sender in senders}


def add(connection: sa.Connection, keys: Sequence[SegmentKey]) -> None:
    """Note that segments of one job are in a bundle; neighbours join the ranges that are there.

    With 1 to 4 known, 5 and 7 more make 1 to 5 and 7.
    """
    job = keys[0].job
    numbers: dict[Sender, list[int]] = {}
    for key in keys:
        numbers.setdefault((key.attempt, key.node, key.spool), []).append(key.sequence)
    ending: dict[tuple[Sender, int], int] = {}
    for row in _of_senders(connection, job, sorted(numbers)):
        ending[(row.attempt, row.node, row.spool), row.last] = row.first
    rows = []
    for sender, sequences in numbers.items():
        for first, last in _runs(sorted(sequences)):
            first = ending.get((sender, first - 1), first)
            attempt, node, spool = sender
            rows.append(
                {"job": job, "attempt": attempt, "node": node, "spool": spool}
                | {"first": first, "last": last}
            )
    more = insert(connection.dialect, schema.bundle_key)
    keys_of = [column.name for column in schema.bundle_key.primary_key]
    connection.execute(
        more.on_conflict_do_update(index_elements=keys_of, set_={"last": more.excluded.last}), rows
    )


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run without a gap: of [1, 2, 5] it is (1, 2) and (5, 5)."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _of_senders(connection: sa.Connection, job: str, senders: Sequence[Sender]) -> Iterator[Any]:
    """Ranges of these senders."""
    table = schema.bundle_key
    for at in range(0, len(senders), _AT_ONCE):
        sender = sa.tuple_(table.c.attempt, table.c.node, table.c.spool)
        of_some = sender.in_(senders[at : at + _AT_ONCE])
        yield from connection.execute(sa.select(table).where(table.c.job == job, of_some))


def _bundled(
    connection: sa.Connection, job: str, rows: Sequence[Mapping[str, Any]]
) -> set[tuple[Any, ...]]:
    """Keys of those rows that lie in a range."""
    ranges: dict[Sender, list[tuple[int, int]]] = {}
    for row in _of_senders(connection, job, sorted(set(map(_sender_of, rows)))):
        ranges.setdefault((row.attempt, row.node, row.spool), []).append((row.first, row.last))
    return {
        tuple(row[name] for name in SegmentKey._fields)
        for row in rows
        if any(first <= row["sequence"] <= last for first, last in ranges.get(_sender_of(row), ()))
    }
