"""A store of an earlier release is brought up to date when it is opened, and can go back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import SCHEMA_VERSION, Store
from stepwatch.collector.store.database import schema_of
from stepwatch.collector.store.migrations import migrate, moving, versions
from stepwatch.collector.store.slices import Slice
from stepwatch.collector.store.snapshots import StoredSnapshot
from stepwatch.collector.store.upkeep.checks import problems
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.signals import wire
from stepwatch.signals.errors import StoreError
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.store import earlier
from tests.collector.store.filled import RECEIVED, stored


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Another connection to the same database."""
    new_engine = sa.create_engine(url)
    yield new_engine
    new_engine.dispose()


def move(engine: sa.Engine, schema: str) -> None:
    """Migrate to a schema."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        migrate(connection, schema)


def tables_of(engine: sa.Engine) -> dict[str, Any]:
    """Columns, primary keys and indexes of each table, as the database shows them."""
    inspector = sa.inspect(engine)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)],
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(
                (i["name"], i["column_names"], i["unique"]) for i in inspector.get_indexes(table)
            ),
        )
        for table in inspector.get_table_names()
        if not table.startswith("segment_day_")
    }


@pytest.mark.parametrize("before_job_ids", [False, True])
def test_a_store_of_schema_1_keeps_all_it_holds(
    url: str, before_job_ids: bool, caplog: pytest.LogCaptureFixture
) -> None:
    payloads = earlier.make(url, before_job_ids)
    with caplog.at_level(logging.INFO):
        store = Store(url)
    (line,) = caplog.messages
    assert f"from schema 1 to {SCHEMA_VERSION}" in line and "not-shown" not in line
    assert sorted(store.jobs()) == [JOB, earlier.OTHER]
    for job, sent in payloads.items():
        segments = list(store.segments(job))
        assert [item.payload for item in segments] == sent
        assert [item.position for item in segments] == [1, 2, 3, 4, 5, 6]
    assert [item.received_ns for item in store.segments(JOB)] == [*range(1000, 1012, 2)]
    assert store.incidents() == [earlier.INCIDENT]
    assert store.slices(JOB, "goodput") == [Slice(*row) for row in earlier.SLICES]
    assert store.undecoded.count() == 0
    store.close()


def test_the_log_goes_on_where_schema_1_ended(url: str) -> None:
    earlier.make(url)
    store = Store(url)
    service = Service(store, HandClock(60.0))
    verdicts = service.receive(body(run_segments(35)))
    assert [item.verdict for item in verdicts] == ["duplicate"] * 6 + ["accepted"]
    assert [item.position for item in store.segments(JOB)] == [*range(1, 8)]
    job_state = service.job(JOB)
    assert job_state is not None
    assert job_state[0].current.step_history.rows["reported"].tolist() == [4] * 35
    store.close()


def test_an_upgraded_store_has_the_tables_of_a_new_one(
    url: str, engine: sa.Engine, request: pytest.FixtureRequest, tmp_path_factory: Any
) -> None:
    if engine.dialect.name == "sqlite":
        other_url = f"sqlite:///{tmp_path_factory.mktemp('new') / 'store.db'}"
    else:
        other_url = request.getfixturevalue("postgresql").new_database()
    earlier.make(url, early=True)
    Store(url).close()
    Store(other_url).close()
    new = sa.create_engine(other_url)
    assert tables_of(engine) == tables_of(new)
    new.dispose()


def test_back_and_forth_loses_nothing(url: str, engine: sa.Engine) -> None:
    payloads = earlier.make(url)
    original_tables = tables_of(engine)
    Store(url).close()
    move(engine, "1")
    restored_tables = tables_of(engine)
    assert restored_tables.pop("alembic_version")
    assert restored_tables == original_tables
    with engine.connect() as connection:
        version = connection.execute(sa.text("SELECT value FROM meta")).scalar_one()
        stored = connection.execute(sa.text("SELECT job, payload FROM segment ORDER BY id")).all()
    assert version == "1", "an earlier release reads it"
    for job, sent in payloads.items():
        assert [bytes(row.payload) for row in stored if row.job == job] == sent
    reopened = Store(url)
    assert [item.payload for item in reopened.segments(JOB)] == payloads[JOB]
    assert reopened.incidents() == [earlier.INCIDENT]
    reopened.close()


def test_going_back_puts_bundles_apart(url: str, engine: sa.Engine) -> None:
    store = Store(url)
    run = run_segments(100)
    store.add_segments(stored(run), RECEIVED)
    store.snapshots.save(JOB, StoredSnapshot(16, b"of 16"), format=1, saved_ns=5)
    bundled = Compactor(store.engine).compact(Compaction(0.0, 0.0), RECEIVED + 1)
    assert bundled.segments == 16
    original = [(s.position, s.received_ns, s.payload) for s in store.segments(JOB)]
    store.close()
    move(engine, "2")
    query = "SELECT position, received_ns, payload FROM segment ORDER BY position"
    with engine.connect() as connection:
        rows = connection.execute(sa.text(query)).all()
    assert [
        (p, received_ns, wire.encode(wire.decode(bytes(data)))) for p, received_ns, data in rows
    ] == original
    store = Store(url)
    assert [(s.position, s.received_ns, s.payload) for s in store.segments(JOB)] == original
    assert not any(outcome.new for outcome in store.add_segments(stored(run), RECEIVED))
    assert list(problems(store.engine)) == []
    store.close()


def test_a_store_is_moved_back_and_forth_when_asked(url: str, engine: sa.Engine) -> None:
    payloads = earlier.make(url)
    Store(url).close()
    for dry_run in (True, False):
        assert moving.move(url, "2", dry_run=dry_run)[:2] == ("7", "2")
        with engine.connect() as connection:
            assert schema_of(connection) == ("7" if dry_run else "2")
        engine.dispose()
    assert moving.move(url, "1")[:2] == ("2", "1")
    assert moving.move(url, "7")[:2] == ("1", "7") and moving.move(url, "7")[:2] == ("7", "7")
    store = Store(url)
    assert [item.payload for item in store.segments(JOB)] == payloads[JOB]
    store.close()


def test_a_store_in_use_is_not_moved(url: str) -> None:
    store = Store(url)
    store.jobs()
    with pytest.raises(StoreError, match="in use: stop the collectors"):
        moving.move(url, "2")
    store.close()
    assert moving.move(url, "2", dry_run=True).to == "2"
    with pytest.raises(
        StoreError, match="has schema 7; this stepwatch moves between 1, 2, 3, 4, 5, 6, 7"
    ):
        moving.move(url, "9")


def test_every_schema_has_its_migration() -> None:
    files = Path(versions.__file__).parent.glob("schema_*.py")
    schema_versions = sorted(file.stem.removeprefix("schema_") for file in files)
    assert schema_versions == sorted(moving.KNOWN)


def test_an_empty_database_is_not_moved(url: str) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        moving.move(url, "2")


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(url: str, engine: sa.Engine) -> None:
    earlier.make(url)
    with engine.begin() as connection:
        # The upgrade's last step finds its place taken.
        connection.exec_driver_sql("CREATE TABLE snapshot (id INTEGER)")
    original_tables = tables_of(engine)
    with pytest.raises(StoreError, match="snapshot"):
        Store(url)
    assert tables_of(engine) == original_tables
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM segment")).scalar_one() == 12


def test_a_newer_store_is_refused_with_what_to_do(url: str, engine: sa.Engine) -> None:
    Store(url).close()
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE meta SET value = '99'"))
    with pytest.raises(StoreError, match=f"schema 99.*reads {SCHEMA_VERSION}.*another --store"):
        Store(url)
