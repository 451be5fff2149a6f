"""A job's segments are read in the order they were stored, by an index, also in old files."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store, StoredSegment
from stepwatch.signals import names, wire
from tests.collector.exported import metric
from tests.collector.made import JOB, HandClock, run_segments

OTHER = "other-job"


def fill(store: Store) -> list[bytes]:
    """Segments of two jobs, alternating; returns those of `JOB`."""
    pairs = zip(run_segments(30), run_segments(30, job=OTHER), strict=True)
    made = [StoredSegment(item, wire.encode(item)) for pair in pairs for item in pair]
    assert all(added.new for added in store.add_segments(made, 1))
    return [stored.data for stored in made if stored.segment.key.job == JOB]


def test_segments_come_back_in_their_order_from_any_place(store: Store) -> None:
    sent = fill(store)
    found = list(store.segments(JOB))
    assert [item.payload for item in found] == sent
    rest = list(store.segments(JOB, after=found[2].id, limit=2))
    assert rest == found[3:5]
    assert list(store.segments(JOB, after=found[-1].id)) == []


@pytest.mark.parametrize("after", [0, 3])
def test_no_query_sorts_payloads(store: Store, tmp_path: Path, after: int) -> None:
    fill(store)
    asked: list[tuple[str, object]] = []

    def note(_c: object, _k: object, statement: str, parameters: object, *_more: object) -> None:
        asked.append((statement, parameters))

    sa.event.listen(store._engine, "before_cursor_execute", note)
    list(store.segments(JOB, after=after, limit=10))
    store.jobs()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        plans = [
            row[3]
            for statement, parameters in asked
            for row in connection.execute(f"explain query plan {statement}", parameters)  # type: ignore[arg-type]
        ]
    connection.close()
    assert len(asked) == 2
    assert "segment_job_id" in plans[0] and not any("ORDER BY" in plan for plan in plans[:1])


def test_processes_that_open_a_new_store_at_once_all_get_it(tmp_path: Path) -> None:
    """A collector killed while it makes its tables, and the next one, may overlap."""
    openers, rounds = 6, 15
    together = threading.Barrier(openers)

    def open_next(round_: int) -> list[str]:
        together.wait()
        opened = Store(sa.URL.create("sqlite", database=str(tmp_path / f"{round_}.db")))
        jobs = opened.jobs()
        opened.close()
        return jobs

    with ThreadPoolExecutor(openers) as pool:
        for round_ in range(rounds):
            assert list(pool.map(open_next, [round_] * openers)) == [[]] * openers


def test_a_store_of_an_earlier_stepwatch_gets_the_index(store: Store, tmp_path: Path) -> None:
    sent = fill(store)
    store.close()
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("drop index if exists segment_job_id")
    connection.close()
    opened = Store.sqlite(path)
    assert [item.payload for item in opened.segments(JOB)] == sent
    opened.close()
    with sqlite3.connect(path) as connection:
        names = {row[1] for row in connection.execute("pragma index_list(segment)")}
    connection.close()
    assert "segment_job_id" in names


@pytest.mark.parametrize("damaged", [b'{"id": "ab', b'{"id": "\xff"}', b"[]", b""])
def test_a_damaged_incident_hides_no_other(
    store: Store, tmp_path: Path, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    common = {"job": JOB, "kind": "hang", "state": "open", "opened_at": 1.0}
    documents = [{"id": name, **common} for name in ("good", "damaged")]
    store.save_evaluation(JOB, [], documents)
    with sqlite3.connect(tmp_path / "store.db") as connection:
        change = "update incident set document = cast(? as text) where id = 'damaged'"
        connection.execute(change, (damaged,))
    connection.close()
    assert store.incidents(JOB) == store.incidents() == documents[:1]
    assert (store.incident("good"), store.incident("damaged")) == (documents[0], None)
    assert "damaged" in caplog.text
    assert store.unreadable_incidents == {"damaged"}, "read twice, counted once"
    exported = metric(Service(store, HandClock()), names.COLLECTOR_UNREADABLE_INCIDENTS)
    assert exported == 1


def test_whether_a_job_has_a_past_is_asked_without_reading_it(store: Store) -> None:
    sent = fill(store)
    assert store.has_more_than(JOB, len(sent) - 1)
    assert not store.has_more_than(JOB, len(sent))
    assert not store.has_more_than("nobody", 0)
