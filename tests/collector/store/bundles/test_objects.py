"""Bundles as objects: in a directory and in a server that speaks S3, whatever happens to them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.cli.main import main
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store, schema
from stepwatch.collector.store.bundles import making, objects
from stepwatch.collector.store.bundles.objects import ObjectsUnreachable, checked_url
from stepwatch.collector.store.snapshots import StoredSnapshot
from stepwatch.collector.store.upkeep import copies
from stepwatch.collector.store.upkeep.checks import problems
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.collector.store.upkeep.payloads import ORPHANED_S, Payloads
from stepwatch.collector.store.upkeep.removal import Keep
from stepwatch.collector.store.upkeep.retention import Retention
from stepwatch.signals.errors import StoreError
from tests import object_store
from tests.collector.made import JOB, HandClock, run_segments
from tests.collector.store.filled import DAY_NS, RECEIVED, stored
from tests.postgresql import PostgresqlServer

RUN = run_segments(150)
COUNT = len(RUN)
LATER = RECEIVED + DAY_NS
FAR = 4e9
"""Unix seconds at which every object is old."""


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    if absent := object_store.missing():
        pytest.skip(f"not installed: {absent}; make test installs it")
    with object_store.running() as url:
        yield url
    objects._remote.cache_clear()


@pytest.mark.parametrize(
    "text", ["file://localhost{}", "file://{}", "file://{}//", "{}/../a%20b", "file://{}/../a%20b"]
)
def test_a_directory_has_one_url_however_it_is_written(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "a b"
    written = str(folder) if "://" not in text else folder.as_uri().removeprefix("file://")
    url = checked_url(text.format(written).replace("%20", "%20" if "://" in text else " "))
    objects.Directory().put(f"{url}/one", b"1")
    assert [entry.url for entry in objects.Directory().listed(url)] == [f"{url}/one"]
    assert url == folder.as_uri()


def test_a_directory_of_another_machine_is_refused() -> None:
    with pytest.raises(StoreError, match="another machine"):
        checked_url("file://elsewhere/data")


@pytest.fixture(params=["directory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place of objects."""
    if request.param == "directory":
        return str(tmp_path / "objects")
    return f"{request.getfixturevalue('bucket')}/{tmp_path.name}"


@pytest.fixture
def filled(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A job of three bundles, if it is compacted."""
    monkeypatch.setattr(making, "MOST_SEGMENTS", 10)
    store.add_segments(stored(RUN), RECEIVED)
    store.snapshots.save(JOB, StoredSnapshot(COUNT, b"damaged"), format=1, saved_ns=5)
    return store


def compact(store: Store, payloads: Payloads | None) -> making.BundleTotals:
    wait, now_ns = (lambda _: False), LATER
    return Compactor(store.engine, wait, store.upkeep, payloads).compact(Compaction(), now_ns)


def read(store: Store) -> list[tuple[int, bytes]]:
    return [(segment.position, segment.payload) for segment in store.segments(JOB)]


def test_what_is_read_out_of_objects_is_the_same(filled: Store, place: str, tmp_path: Path) -> None:
    original, payloads = read(filled), Payloads(filled.engine, place)
    assert compact(filled, payloads).bundles == 3
    assert len(payloads.objects.listed(payloads.base())) == 3
    with filled.engine.connect() as connection:
        payload_columns = connection.execute(sa.select(schema.bundle.c.payload)).scalars().all()
    assert payload_columns == [None] * 3
    assert read(filled) == original and list(problems(filled.engine)) == []
    assert [segment.position for segment in filled.segments(JOB, after_position=12, limit=3)] == [
        13,
        14,
        15,
    ]
    assert payloads.orphans(FAR) == []
    copies.back_up(filled.engine, tmp_path / "backup.db")
    for entry in payloads.objects.listed(payloads.base()):
        payloads.objects.remove(entry.url)
    backup = Store.sqlite(tmp_path / "backup.db")
    assert read(backup) == original, "a backup needs nothing beside it"
    backup.close()


def test_a_lost_or_changed_object_is_named_and_counted(filled: Store, place: str) -> None:
    payloads = Payloads(filled.engine, place)
    compact(filled, payloads)
    first, second, _ = sorted(payloads.objects.listed(payloads.base()))
    payloads.objects.remove(first.url)
    payloads.objects.put(second.url, b"another")
    assert Service(filled, HandClock(60.0)).restorer.unreadable == 20
    lost, changed = problems(filled.engine)
    assert "there is no object" in lost and "is not the one that was written" in changed


def test_what_nothing_refers_to_is_removed_after_a_day(
    filled: Store, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash between the object and its row, and retention, leave objects behind."""
    payloads = Payloads(filled.engine, place)
    behind = making.Behind(JOB, 0, COUNT)
    with filled.engine.connect() as connection:
        chosen = making.choose(connection, behind, before_ns=LATER, partly_before_ns=LATER)
        making.Bundling(connection, behind, chosen).put(payloads.objects, payloads.base())
    (lost,) = payloads.orphans(FAR)
    assert payloads.orphans(lost.written_s + ORPHANED_S - 1) == [], "its row may come yet"
    assert len(read(filled)) == COUNT
    compact(filled, payloads)
    assert payloads.orphans(FAR) == [], "what is made again has the same name"
    Retention(filled.engine).prune(Keep(), RECEIVED + 30 * DAY_NS)
    assert payloads.remove_orphans(FAR) == 3
    assert payloads.objects.listed(payloads.base()) == []
    words = ["store", "verify", "--store", str(filled.engine.url.database), "--json"]
    assert main([*words, "--payloads", place, "--repair"]) == 0
    assert json.loads(capsys.readouterr().out) == {"problems": []}


def test_stores_that_share_a_place_leave_each_other_alone(
    filled: Store, place: str, tmp_path: Path
) -> None:
    compact(filled, Payloads(filled.engine, place))
    other_store = Store.sqlite(tmp_path / "other.db")
    assert Payloads(other_store.engine, place).remove_orphans(FAR) == 0
    other_store.close()
    assert len(read(filled)) == COUNT


def test_nothing_is_removed_while_another_collector_makes_bundles(
    filled: Store, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each object is written, and its row not yet, when another collector sweeps."""
    payloads = Payloads(filled.engine, place)
    swept, store = [], Compactor._store

    def sweep_first(self: Compactor, *args: Any) -> bool:
        swept.append(Payloads(filled.engine, place).remove_orphans(FAR))
        return store(self, *args)

    monkeypatch.setattr(Compactor, "_store", sweep_first)
    assert compact(filled, payloads).bundles == 3
    assert swept == [None] * 3
    assert len(read(filled)) == COUNT and list(problems(filled.engine)) == []
    assert payloads.remove_orphans(FAR) == 0


def test_while_the_place_does_not_answer_segments_stay(filled: Store, tmp_path: Path) -> None:
    original, place_path = read(filled), tmp_path / "objects"
    payloads = Payloads(filled.engine, str(place_path))
    place_path.write_text("no directory")
    waits = iter([False, True])
    compactor = Compactor(filled.engine, lambda _: next(waits), filled.upkeep, payloads)
    compactor.run(Compaction(), HandClock(86400.0))
    assert filled.upkeep.object_failures == 1 and filled.upkeep.totals.bundles == 0
    assert read(filled) == original
    place_path.unlink()
    compact(filled, payloads)
    assert read(filled) == original
    shutil.move(place_path, tmp_path / "away")
    place_path.write_text("no directory")
    with pytest.raises(ObjectsUnreachable, match="cannot read"):
        read(filled)


@pytest.mark.parametrize(
    ("url", "message"),
    [("nothing://x", "stepwatch\\[object-store\\]"), ("/" + "x" * 200, "more than 160 characters")],
)
def test_a_place_that_cannot_be_is_refused(url: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        checked_url(url)


@pytest.mark.parametrize("reader", ["verify", "backup"])
def test_no_transaction_waits_for_an_object_on_postgresql(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    """The server ends a transaction in which nothing happens for ten seconds."""
    store = Store(postgresql.new_database())
    monkeypatch.setattr(making, "MOST_SEGMENTS", 10)
    store.add_segments(stored(RUN), RECEIVED)
    store.snapshots.save(JOB, StoredSnapshot(COUNT, b"damaged"), format=1, saved_ns=5)
    compact(store, Payloads(store.engine, str(tmp_path / "objects")))
    get, waiting = objects.Directory.get, list[int]()

    def watched(self: objects.Directory, url: str) -> bytes:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND state LIKE 'idle in transaction%%'"
        )
        with store.engine.connect() as connection:
            waiting.append(int(connection.exec_driver_sql(query).scalar_one()))
        return get(self, url)

    monkeypatch.setattr(objects.Directory, "get", watched)
    if reader == "backup":
        copies.back_up(store.engine, tmp_path / "backup.db")
    else:
        list(problems(store.engine))
    assert waiting == [0, 0, 0]
    store.close()
