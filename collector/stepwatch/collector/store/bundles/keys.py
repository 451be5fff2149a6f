"""Index of segments in bundles: it recognizes a repeated segment whose row no longer exists."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert
from stepwatch.collector.store.schema import Key, SegmentRow, Sender, key_of, sender_of
from stepwatch.signals.wire import SegmentKey

_AT_ONCE = 100
"""Number of senders per statement."""
_MOST_KEPT = 1 << 17
"""Maximum number of senders over all jobs whose newest bundled sequence is cached."""


class _Bundled(NamedTuple):
    """One job's last bundled position, and the last bundled sequence by sender."""

    mark: int
    last: dict[Sender, int]


class BundledKeys:
    """Ranges of bundled sequence numbers by sender.

    Sequence numbers rise, so a number beyond the last bundled one is almost always new, and no
    statement is needed. A job's cache entry is valid while the job's row shows the same bundled
    position; the caller holds that row's lock.
    """

    def __init__(self) -> None:
        self._cache: dict[str, _Bundled] = {}
        self._lock = threading.Lock()

    def among(
        self,
        connection: sa.Connection,
        rows: Iterable[SegmentRow],
        marks: Mapping[str, int],
    ) -> set[Key]:
        """Return the keys from `rows` that are in bundles.

        `marks` maps each job to its last bundled position, 0 if it has no bundle.
        """
        bundled_keys: set[Key] = set()
        rows_by_job: dict[str, list[SegmentRow]] = {}
        for row in rows:
            if marks[row.job]:
                rows_by_job.setdefault(row.job, []).append(row)
        for job, of_job in rows_by_job.items():
            last = self._last(connection, job, marks[job], set(map(sender_of, of_job)))
            suspects = [row for row in of_job if row.sequence <= last[sender_of(row)]]
            bundled_keys |= _bundled(connection, job, suspects)
        return bundled_keys

    def _last(
        self, connection: sa.Connection, job: str, mark: int, senders: set[Sender]
    ) -> Mapping[Sender, int]:
        """Return each sender's last bundled sequence number, -1 if there is none.

        The result may contain other senders, too.
        """
        with self._lock:
            entry = self._cache.get(job)
            if entry is None or entry.mark != mark:
                if sum(len(cached.last) for cached in self._cache.values()) > _MOST_KEPT:
                    self._cache.clear()
                entry = self._cache[job] = _Bundled(mark, {})
        strange = sorted(senders - entry.last.keys())
        newest: dict[Sender, int] = dict.fromkeys(strange, -1)
        for row in _of_senders(connection, job, strange):
            sender = (row.attempt, row.node, row.spool)
            newest[sender] = max(newest[sender], row.last)
        entry.last.update(newest)
        return entry.last


def add(connection: sa.Connection, keys: Sequence[SegmentKey]) -> None:
    """Record one job's segments as bundled; adjacent ranges merge.

    With 1 to 4 recorded, adding 5 and 7 gives 1 to 5 and 7.
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
    """Yield the first and last number in each run without a gap.

    [1, 2, 5] gives (1, 2) and (5, 5).
    """
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _of_senders(connection: sa.Connection, job: str, senders: Sequence[Sender]) -> Iterator[Any]:
    """Yield the ranges for these senders."""
    table = schema.bundle_key
    for start in range(0, len(senders), _AT_ONCE):
        sender = sa.tuple_(table.c.attempt, table.c.node, table.c.spool)
        of_some = sender.in_(senders[start : start + _AT_ONCE])
        yield from connection.execute(sa.select(table).where(table.c.job == job, of_some))


def _bundled(connection: sa.Connection, job: str, rows: Sequence[SegmentRow]) -> set[Key]:
    """Return the keys from `rows` that are inside a bundled range."""
    ranges: dict[Sender, list[tuple[int, int]]] = {}
    for sequence_range in _of_senders(connection, job, sorted(set(map(sender_of, rows)))):
        sender = (sequence_range.attempt, sequence_range.node, sequence_range.spool)
        ranges.setdefault(sender, []).append((sequence_range.first, sequence_range.last))
    return {
        key_of(row)
        for row in rows
        if any(first <= row.sequence <= last for first, last in ranges.get(sender_of(row), ()))
    }
