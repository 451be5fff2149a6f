"""A store is moved to the next schema and back without loss; an unknown schema is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store, migrations
from stepwatch.collector.store.database import schema_of
from stepwatch.collector.store.migrations import moving, versions
from stepwatch.signals.errors import StoreError
from tests.collector.made import JOB
from tests.collector.store import next_schema
from tests.collector.store.filled import add_evaluation, fill
from tests.collector.store.next_schema import BEFORE, NEXT

KNOWN = ", ".join(migrations.SCHEMAS)


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Other connections to the same database, each closed after its use."""
    new_engine = sa.create_engine(url, poolclass=sa.NullPool)
    yield new_engine
    new_engine.dispose()


@pytest.fixture
def payloads(url: str) -> list[bytes]:
    """Payloads of a job in a store of this version."""
    store = Store(url)
    sent = fill(store)
    add_evaluation(store, JOB, "open")
    store.close()
    return sent


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The next version runs."""
    next_schema.install(monkeypatch, tmp_path_factory.mktemp("migrations"))


def tables_of(engine: sa.Engine) -> dict[str, Any]:
    """Columns, primary keys and indexes of each table, as the database shows them."""
    inspector = sa.inspect(engine)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)],
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted((i["name"], i["column_names"]) for i in inspector.get_indexes(table)),
        )
        for table in inspector.get_table_names()
    }


def schema(engine: sa.Engine) -> str | None:
    """Schema of the store."""
    with engine.connect() as connection:
        return schema_of(connection)


def test_a_store_is_moved_forward_when_it_is_opened_and_back_when_asked(
    url: str,
    engine: sa.Engine,
    payloads: list[bytes],
    later: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    original_tables = tables_of(engine)
    with caplog.at_level(logging.INFO):
        store = Store(url)
    (line,) = caplog.messages
    assert f"from schema {BEFORE} to {NEXT}" in line and "not-shown" not in line
    incidents = store.incidents.newest()
    assert [item.payload for item in store.segments(JOB)] == payloads and len(incidents) == 1
    store.close()
    assert "ticket" in {column["name"] for column in sa.inspect(engine).get_columns("silence")}
    assert moving.move(url, BEFORE)[:2] == (NEXT, BEFORE)
    assert tables_of(engine) == original_tables
    monkeypatch.undo()
    store = Store(url)
    assert [item.payload for item in store.segments(JOB)] == payloads
    assert store.incidents.newest() == incidents
    store.close()


def test_a_store_of_the_first_schema_gets_the_tables_of_a_new_one(
    url: str, engine: sa.Engine, payloads: list[bytes]
) -> None:
    new_tables = tables_of(engine)
    moving.move(url, "1")
    assert tables_of(engine).keys() < new_tables.keys()
    store = Store(url)
    assert [item.payload for item in store.segments(JOB)] == payloads
    store.close()
    assert tables_of(engine) == new_tables


def test_a_dry_run_leaves_the_store_as_it_was(
    url: str, engine: sa.Engine, payloads: list[bytes], later: None
) -> None:
    assert moving.move(url, NEXT, dry_run=True)[:2] == (BEFORE, NEXT)
    assert schema(engine) == BEFORE
    assert moving.move(url, NEXT)[:2] == (BEFORE, NEXT)
    assert moving.move(url, NEXT)[:2] == (NEXT, NEXT)


def test_a_store_in_use_is_not_moved(url: str, payloads: list[bytes], later: None) -> None:
    store = Store(url)
    store.jobs()
    with pytest.raises(StoreError, match="in use: stop the collectors"):
        moving.move(url, BEFORE)
    store.close()
    assert moving.move(url, BEFORE, dry_run=True).new_schema == BEFORE


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    url: str, engine: sa.Engine, payloads: list[bytes], later: None
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE silence ADD COLUMN ticket INTEGER")
    original_tables = tables_of(engine)
    with pytest.raises(StoreError, match="ticket"):
        Store(url)
    assert tables_of(engine) == original_tables and schema(engine) == BEFORE


@pytest.mark.parametrize("number", ["0", "7", "99"])
def test_an_unknown_schema_is_refused_in_one_line(url: str, engine: sa.Engine, number: str) -> None:
    Store(url).close()
    with pytest.raises(StoreError, match=f"from schema {BEFORE} to {number}: .* knows {KNOWN}$"):
        moving.move(url, number)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE meta SET value = :number"), {"number": number})
    with pytest.raises(StoreError, match=f"schema {number}.*reads {BEFORE}.*another --store$"):
        Store(url)
    with pytest.raises(StoreError, match=f"from schema {number} to {BEFORE}: .* knows {KNOWN}$"):
        moving.move(url, BEFORE)


def test_every_schema_has_its_migration() -> None:
    files = Path(versions.__file__).parent.glob("schema_*.py")
    schema_names = sorted(file.stem.removeprefix("schema_") for file in files)
    assert schema_names == sorted(migrations.SCHEMAS)


def test_an_empty_database_is_not_moved(url: str) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        moving.move(url, BEFORE)
