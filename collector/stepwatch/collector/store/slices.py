"""Stored SLI slices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert
from stepwatch.collector.store.outages.damage import naming_damage
from stepwatch.signals.arrays import Matrix, Rows

SLICE_SECONDS = 10
SLICE = np.dtype(
    [
        ("start_s", "<i8"),
        ("version", "<i8"),
        ("good", "<f8"),
        ("total", "<f8"),
        ("observed", "<i8"),
        ("expected", "<i8"),
        ("cumulative_good", "<f8"),
        ("cumulative_total", "<f8"),
        ("seconds", "<i8"),
    ]
)
"""Array dtype with the fields of `Slice`, in order."""


class Slice(NamedTuple):
    """One SLI over `seconds` from `start_s` (Unix seconds).

    `good` and `total` are device-seconds; `observed` and `expected` count step records. A slice
    longer than `SLICE_SECONDS` replaces all slices that start in it.
    """

    start_s: int
    version: int
    good: float
    total: float
    observed: int
    expected: int
    cumulative_good: float
    cumulative_total: float
    seconds: int = SLICE_SECONDS


def read_slices(connection: sa.Connection, job: str, sli: str) -> Rows:
    """Return one SLI's slices in time order, as a `SLICE` array.

    Raises:
        StoreDamagedError: the database cannot read them, or a value is not a number.
    """
    columns = [_TABLE.c[name] for name in Slice._fields]
    query = sa.select(*columns).where(_TABLE.c.job == job, _TABLE.c.sli == sli)
    with naming_damage(f"the {sli} slices of {job}"):
        # The driver's own tuples: a month-long job has 30,000 slices, and a restart reads them all.
        rows = connection.execute(query.order_by(_TABLE.c.start_s)).cursor.fetchall()
        return np.fromiter(rows, dtype=SLICE, count=len(rows))


def read_sums(
    connection: sa.Connection, sli: str, moments: Sequence[int], since_s: int, job: str | None
) -> dict[str, Matrix]:
    """Return good and total device-seconds before each of `moments`, by job: (moments, 2).

    The sums include all slices that start before the moment. They cover jobs with an account from
    `since_s` on, or one job.
    """
    days, jobs = schema.account_day, sa.select(schema.account_day.c.job).distinct()
    jobs = jobs.where(days.c.day_s >= since_s)
    named = (jobs if job is None else jobs.where(days.c.job == job)).subquery()
    of_job = (_TABLE.c.job == named.c.job, _TABLE.c.sli == sli)
    inner = _TABLE.alias()
    newest = (
        sa.select(sa.func.max(inner.c.start_s))
        .where(inner.c.job == named.c.job, inner.c.sli == sli)
        .where(inner.c.start_s < sa.bindparam("moment"))
        .scalar_subquery()
    )
    sums = (_TABLE.c.cumulative_good, _TABLE.c.cumulative_total)
    at_newest = sa.and_(*of_job, _TABLE.c.start_s == newest)
    query = sa.select(named.c.job, *sums).select_from(named.join(_TABLE, at_newest))
    sums_by_job: dict[str, Matrix] = {}
    for index, moment in enumerate(moments):
        for name, good, total in connection.execute(query, {"moment": moment}):
            sums_by_job.setdefault(name, np.zeros((len(moments), 2)))[index] = good, total
    return sums_by_job


def slices_of(rows: Rows) -> list[Slice]:
    """Return rows with the `SLICE` columns as `Slice` objects."""
    columns = (rows[name].tolist() for name in Slice._fields)
    return [Slice(*values) for values in zip(*columns, strict=True)]


def put_slices(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write slices and replace those with the same start.

    A coarse slice replaces all slices inside it.
    """
    coarse = [
        {"of_job": row["job"], "of_sli": row["sli"], "first": row["start_s"],
         "last": row["start_s"] + row["seconds"] - 1}
        for row in rows
        if row["seconds"] > SLICE_SECONDS
    ]  # fmt: skip
    if coarse:
        connection.execute(_REMOVE, coarse)
    if rows:
        connection.execute(_put(connection.dialect), rows)


@lru_cache(maxsize=4)
def _put(dialect: sa.Dialect) -> sa.Insert:
    keys = [column.name for column in _TABLE.primary_key]
    new = insert(dialect, _TABLE)
    changed = {
        column.name: new.excluded[column.name] for column in _TABLE.c if column.name not in keys
    }
    return new.on_conflict_do_update(index_elements=keys, set_=changed)


_TABLE = schema.sli_slice
_REMOVE = sa.delete(_TABLE).where(
    _TABLE.c.job == sa.bindparam("of_job"),
    _TABLE.c.sli == sa.bindparam("of_sli"),
    _TABLE.c.start_s.between(sa.bindparam("first"), sa.bindparam("last")),
)
