"""Reads slices: the rows put over the packed blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.outages.damage import naming_damage
from stepwatch.collector.store.slices.blocks import by_day, joined, overlaid, unpacked
from stepwatch.collector.store.slices.rows import SLICE, Slice
from stepwatch.signals.arrays import Matrix, Rows

_ROW, _BLOCK = schema.sli_slice, schema.slice_block
_SUMS = ("cumulative_good", "cumulative_total")


def read_slices(connection: sa.Connection, job: str, sli: str) -> Rows:
    """Return one SLI's slices in time order, as a `SLICE` array.

    The connection shows one moment: between two moments, rows may move into a block.

    Raises:
        StoreDamagedError: the database cannot read them, or a value is not a number.
    """
    subject = {"job": job, "sli": sli}
    with naming_damage(f"the {sli} slices of {job}"):
        rows = rows_of(connection.execute(_ROWS, subject))
        stored = connection.execute(_BLOCKS, subject)
        days = {day_s: unpacked(bytes(payload)) for day_s, payload in stored}
        if not days:
            return rows
        for day_s, of_day in by_day(rows):
            days[day_s] = overlaid(days[day_s], of_day) if day_s in days else of_day
        return joined([days[day_s] for day_s in sorted(days)])


def rows_of(result: sa.CursorResult[Any]) -> Rows:
    """Return selected slice rows as a `SLICE` array.

    From the driver's own tuples: SQLAlchemy's rows take three times as long.
    """
    rows = result.cursor.fetchall()
    return np.fromiter(rows, dtype=SLICE, count=len(rows))


def read_sums(
    connection: sa.Connection, sli: str, moments: Sequence[int], since_s: int, job: str | None
) -> dict[str, Matrix]:
    """Return good and total device-seconds before each of `moments`, by job: (moments, 2).

    The sums include all slices that start before the moment. They cover jobs with an account from
    `since_s` on, or one job. The connection shows one moment.

    Raises:
        StoreDamagedError: the database cannot read them.
    """
    days = schema.account_day
    jobs = sa.select(days.c.job).distinct().where(days.c.day_s >= since_s)
    named = (jobs if job is None else jobs.where(days.c.job == job)).subquery()
    queries = _newest_row(named, sli), _newest_block(named, sli)
    sums_by_job: dict[str, Matrix] = {}
    with naming_damage(f"the {sli} slices"):
        for index, moment in enumerate(moments):
            for name, sums in _sums_before(connection, queries, sli, moment):
                sums_by_job.setdefault(name, np.zeros((len(moments), 2)))[index] = sums
    return sums_by_job


class _Newest(NamedTuple):
    """The newest slice before a moment: its start and end, Unix seconds, and its running sums."""

    start_s: int
    end_s: int
    good: float
    total: float


def _sums_before(
    connection: sa.Connection,
    queries: tuple[sa.Select[Any], sa.Select[Any]],
    sli: str,
    moment: int,
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield each job with the running sums of its newest slice before a moment.

    A row wins over packed slices, unless one starts after the row's end.
    """
    rows, blocks = queries
    newest: dict[str, _Newest] = {}
    for name, day_s, *end in connection.execute(blocks, {"moment": moment}).all():
        slice_ = _Newest(*end)
        if slice_.start_s >= moment:
            slice_ = _inside_block(connection, {"job": name, "sli": sli, "day_s": day_s}, moment)
        newest[name] = slice_
    for name, *row in connection.execute(rows, {"moment": moment}):
        slice_ = _Newest(*row)
        if name not in newest or slice_.end_s > newest[name].start_s:
            newest[name] = slice_
    yield from ((name, slice_[2:]) for name, slice_ in newest.items())


def _inside_block(connection: sa.Connection, key: dict[str, Any], moment: int) -> _Newest:
    rows = unpacked(bytes(connection.execute(_ONE_BLOCK, key).scalar_one()))
    row = rows[np.searchsorted(rows["start_s"], moment) - 1]
    start = int(row["start_s"])
    return _Newest(start, start + int(row["seconds"]), *(float(row[name]) for name in _SUMS))


def _newest_row(named: sa.Subquery, sli: str) -> sa.Select[Any]:
    """Return the query for each job's newest slice row before the parameter `moment`."""
    inner = _ROW.alias()
    newest = sa.select(sa.func.max(inner.c.start_s)).where(
        inner.c.job == named.c.job, inner.c.sli == sli, inner.c.start_s < sa.bindparam("moment")
    )
    of_job = _ROW.c.job == named.c.job, _ROW.c.sli == sli
    joined = named.join(_ROW, sa.and_(*of_job, _ROW.c.start_s == newest.scalar_subquery()))
    end = _ROW.c.start_s + _ROW.c.seconds
    sums = (_ROW.c[name] for name in _SUMS)
    return sa.select(named.c.job, _ROW.c.start_s, end, *sums).select_from(joined)


def _newest_block(named: sa.Subquery, sli: str) -> sa.Select[Any]:
    """Return the query for each job's newest block with a slice before the parameter `moment`."""
    inner = _BLOCK.alias()
    moment: sa.BindParameter[int] = sa.bindparam("moment")
    newest = sa.select(sa.func.max(inner.c.day_s)).where(
        inner.c.job == named.c.job, inner.c.sli == sli, inner.c.first_s < moment
    )
    # A block's first slice starts in its day: with this bound the key's index finds the newest.
    newest = newest.where(inner.c.day_s < moment)
    of_job = _BLOCK.c.job == named.c.job, _BLOCK.c.sli == sli
    joined = named.join(_BLOCK, sa.and_(*of_job, _BLOCK.c.day_s == newest.scalar_subquery()))
    columns = (_BLOCK.c[name] for name in ("day_s", "last_s", "end_s", *_SUMS))
    return sa.select(named.c.job, *columns).select_from(joined)


def _of_subject(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.job == sa.bindparam("job"), table.c.sli == sa.bindparam("sli"))


_ROWS = sa.select(*(_ROW.c[name] for name in Slice._fields)).where(_of_subject(_ROW))
_ROWS = _ROWS.order_by(_ROW.c.start_s)
_BLOCKS = sa.select(_BLOCK.c.day_s, _BLOCK.c.payload).where(_of_subject(_BLOCK))
_ONE_BLOCK = sa.select(_BLOCK.c.payload).where(
    _of_subject(_BLOCK), _BLOCK.c.day_s == sa.bindparam("day_s")
)
