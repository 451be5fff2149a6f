"""A backup is the store of one moment, on either database, and restores to either."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store
from stepwatch.collector.store.upkeep import copies
from stepwatch.collector.store.upkeep.checks import problems
from stepwatch.signals.errors import StoreError
from tests.collector.made import JOB, run_segments
from tests.collector.store.filled import OTHER, RECEIVED, add_evaluation, fill, stored
from tests.postgresql import PostgresqlServer


def filled(store: Store) -> Store:
    """Some of everything."""
    fill(store)
    add_evaluation(store, JOB, "open")
    store.undecoded.keep([(b"of a later format", 9)], 5)
    store.quarantine([(b"rubbish", "no segment")], 5)
    return store


def assert_same(source: Store, copy: Store) -> None:
    for job in (JOB, OTHER):
        assert list(source.segments(job)) == list(copy.segments(job)) != []
        assert source.position(job) == copy.position(job)
        assert source.slices(job, "goodput") == copy.slices(job, "goodput")
    assert source.incidents.newest() == copy.incidents.newest() != []
    assert source.undecoded.of_formats({9}) == copy.undecoded.of_formats({9}) != []
    assert source.jobs() == copy.jobs()


@pytest.mark.parametrize("into", ["sqlite", "postgresql"])
def test_a_restored_store_is_the_one_that_was_backed_up(
    opened: Store, into: str, tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    filled(opened)
    file = tmp_path / "backup.db"
    rows = copies.back_up(opened.engine, file)
    assert rows["segment"] == 12 and rows["job"] == 2 and rows["incident"] == 1
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup.db"]
    assert file.stat().st_mode & 0o077 == 0, "for its owner alone"
    backup = Store.sqlite(file)
    assert_same(backup, opened)
    backup.close()
    url = postgresql.new_database() if into == "postgresql" else f"sqlite:///{tmp_path / 'new.db'}"
    restored = Store(url)
    assert copies.restore(file, restored.engine) == rows
    assert_same(restored, opened)
    assert list(problems(restored.engine)) == []
    # Ids and positions go on behind the copied ones.
    assert restored.undecoded.keep([(b"another", 9)], 6) == 1
    (added,) = restored.add_segments(stored(run_segments(35)[6:]), RECEIVED)
    assert added.new and restored.position(JOB) == 7
    restored.close()


def test_a_backup_while_a_collector_writes_is_of_one_moment(
    opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of many transactions adds a segment to both jobs: a moment has as many of each."""
    ones, other_segments = (stored(run_segments(300, job=job)) for job in (JOB, OTHER))
    monkeypatch.setattr(copies, "AT_ONCE", 1)
    half, finished = threading.Event(), threading.Event()

    def write() -> None:
        for number, pair in enumerate(zip(ones, other_segments, strict=True)):
            opened.add_segments(list(pair), RECEIVED)
            if number == 20:
                half.set()
        finished.set()

    writer = threading.Thread(target=write)
    writer.start()
    half.wait()
    copies.back_up(opened.engine, tmp_path / "backup.db")
    writer.join()
    backup = Store.sqlite(tmp_path / "backup.db")
    count = backup.position(JOB)
    assert 20 < count <= 60
    for job, segments in ((JOB, ones), (OTHER, other_segments)):
        copied = list(backup.segments(job))
        assert [item.position for item in copied] == [*range(1, count + 1)]
        assert [item.payload for item in copied] == [
            stored_segment.data for stored_segment in segments[:count]
        ]
    assert list(problems(backup.engine)) == []
    backup.close()


def test_a_backup_that_fails_leaves_no_file(opened: Store, tmp_path: Path) -> None:
    filled(opened)
    with opened.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE undecoded RENAME TO away")
    with pytest.raises(sa.exc.SQLAlchemyError):
        copies.back_up(opened.engine, tmp_path / "backup.db")
    assert list(tmp_path.glob("backup*")) == []
    with pytest.raises(StoreError, match="name another file"):
        copies.back_up(opened.engine, tmp_path / "nowhere" / "backup.db")


def test_nothing_is_overwritten(opened: Store, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    copies.back_up(filled(opened).engine, file)
    content = file.read_bytes()
    with pytest.raises(StoreError, match="there already"):
        copies.back_up(opened.engine, file)
    with pytest.raises(StoreError, match="has jobs already"):
        copies.restore(file, opened.engine)
    with pytest.raises(StoreError, match="no backup"):
        copies.restore(tmp_path / "none.db", opened.engine)
    assert file.read_bytes() == content
