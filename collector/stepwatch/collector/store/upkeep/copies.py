"""Copies a store to another one: a backup is an SQLite store for any source database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.store import schema
from stepwatch.collector.store.bundles.objects import Reference, fetched
from stepwatch.collector.store.database import begin_writing, hold_moment, open_database
from stepwatch.collector.store.partitions import Partitions
from stepwatch.signals.errors import StoreError

AT_ONCE = 16
"""Number of rows in memory during a copy: a segment may have 8 MiB."""
_OWN = ("meta", "alembic_version")
"""Tables that describe the store's schema; each store has its own."""


def back_up(engine: sa.Engine, file: Path) -> dict[str, int]:
    """Copy a consistent snapshot of a store into a new file, while others write to the store.

    Returns the row count by table. The file gets its name once all data is on disk.

    Raises:
        StoreError: the file exists already, or cannot be written.
        sqlalchemy.exc.SQLAlchemyError: the store does not answer.
    """
    if file.exists():
        raise StoreError(f"{file} is there already; name a file that is not, or remove it")
    partial = file.with_name(file.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600)
        copied = _write(engine, partial)
        partial.rename(file)
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror}; name another file") from error
    finally:
        partial.unlink(missing_ok=True)
    return copied


def _write(engine: sa.Engine, place: Path) -> dict[str, int]:
    target = open_database(sa.URL.create("sqlite", database=str(place)))
    try:
        copied = _copy(engine, target, with_objects=False)
        _bring_objects(target)
        # A backup is a single file without a WAL file.
        with target.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    finally:
        target.dispose()
        for suffix in ("-wal", "-shm"):
            place.with_name(place.name + suffix).unlink(missing_ok=True)
    with place.open("rb") as written:
        os.fsync(written.fileno())
    return copied


def restore(file: Path, engine: sa.Engine) -> dict[str, int]:
    """Copy a backup into an empty store, all or nothing; return the row count by table.

    Raises:
        StoreError: the file does not exist or is not a store, or the target store has jobs.
        sqlalchemy.exc.SQLAlchemyError: the store does not answer.
    """
    if not file.is_file():
        raise StoreError(f"there is no backup {file}")
    with engine.connect() as connection:
        if connection.execute(sa.select(schema.job.c.name).limit(1)).first() is not None:
            raise StoreError("the store has jobs already; restore into a new one, and use that")
    source = open_database(sa.URL.create("sqlite", database=str(file)))
    try:
        _make_partitions(source, engine)
        return _copy(source, engine)
    finally:
        source.dispose()


def _bring_objects(target: sa.Engine) -> None:
    """Replace object references in a copy with their bytes: a copy depends on no other file.

    This runs after the store was read: a server ends a transaction that waits for objects.
    """
    table = schema.bundle
    columns = [table.c[name] for name in Reference._fields]
    with target.connect() as connection:
        query = sa.select(table.c.id).where(table.c.object.is_not(None))
        identities = connection.execute(query).scalars().all()
    for identity in identities:
        of_bundle = table.c.id == identity
        with target.begin() as connection:
            row = connection.execute(sa.select(*columns).where(of_bundle)).one()
            payload = fetched(Reference(*row))
            change = sa.update(table).where(of_bundle).values(payload=payload, object=None)
            connection.execute(change)


def _copy(source: sa.Engine, target: sa.Engine, *, with_objects: bool = True) -> dict[str, int]:
    """Copy all tables at one moment, in one transaction."""
    tables = [table for table in schema.metadata.sorted_tables if table.name not in _OWN]
    with source.connect() as reading, target.begin() as writing:
        hold_moment(reading)
        begin_writing(writing)
        convert = _with_payload if with_objects else _as_it_is
        copied = {table.name: _copy_table(reading, writing, table, convert) for table in tables}
        _set_numbers(writing, tables)
    return copied


def _copy_table(
    reading: sa.Connection,
    writing: sa.Connection,
    table: sa.Table,
    convert: Callable[[sa.Table, dict[str, Any]], dict[str, Any]],
) -> int:
    query = sa.select(*(_as_text(column) for column in table.columns))
    rows = reading.execution_options(yield_per=AT_ONCE).execute(query).mappings()
    columns = (
        sa.column(column.name, _written(column, writing.dialect)) for column in table.columns
    )
    statement, count = sa.insert(sa.table(table.name, *columns)), 0
    for part in rows.partitions():
        writing.execute(statement, [convert(table, dict(row)) for row in part])
        count += len(part)
    return count


def _with_payload(table: sa.Table, row: dict[str, Any]) -> dict[str, Any]:
    """Return the row; an object's bytes replace its reference, so that a copy is self-contained."""
    if table is schema.bundle and row["object"] is not None:
        payload = fetched(Reference(*(row[name] for name in Reference._fields)))
        return {**row, "payload": payload, "object": None}
    return row


def _as_it_is(_table: sa.Table, row: dict[str, Any]) -> dict[str, Any]:
    return row


def _as_text(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return the column; a document is copied as text, unchanged."""
    is_document = isinstance(column.type, sa.JSON)
    return sa.cast(column, sa.Text).label(column.name) if is_document else column


def _written(column: sa.Column[Any], dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
    if not isinstance(column.type, sa.JSON):
        return column.type
    return _Document() if dialect.name == "postgresql" else sa.Text()


class _Document(sa.types.TypeDecorator[str]):
    """A document's text; PostgreSQL needs a cast to JSON."""

    impl = sa.Text
    cache_ok = True

    def bind_expression(self, bindvalue: sa.BindParameter[str]) -> sa.ColumnElement[Any]:
        """`bindvalue` as JSON."""
        return sa.cast(bindvalue, sa.JSON)


def _set_numbers(connection: sa.Connection, tables: Iterable[sa.Table]) -> None:
    """Advance PostgreSQL's id sequences beyond the copied rows."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        if "id" in table.c and isinstance(table.c.id.type, sa.Integer):
            last = sa.select(sa.func.coalesce(sa.func.max(table.c.id), 0) + 1).scalar_subquery()
            name = sa.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sa.select(sa.func.setval(name, last, False)))


def _make_partitions(source: sa.Engine, target: sa.Engine) -> None:
    """Create partitions for the backup's newest days, before the copy locks them."""
    segment = schema.segment
    query = sa.select(segment.c.wall_day).distinct()
    newest = sa.select(sa.func.max(segment.c.received_ns))
    with source.connect() as connection:
        days = {int(day) for (day,) in connection.execute(query)}
        last = connection.execute(newest).scalar_one()
    if last is not None:
        Partitions(target).make(days, int(last) // schema.DAY_NS)
