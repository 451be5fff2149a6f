"""Slices as rows, and their table: new and changed ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.database import insert
from stepwatch.signals.arrays import Rows

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
