"""A job's log has one order on every database, whoever writes to it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store, StoredSegment, log, partitions, schema
from stepwatch.signals import wire
from tests.collector.made import JOB, run_segments
from tests.collector.store.filled import DAY_NS, OTHER, RECEIVED, fill, positions, stored
from tests.postgresql import PostgresqlServer


def test_segments_come_back_in_their_order_from_any_place(opened: Store) -> None:
    sent = fill(opened)
    segments = list(opened.segments(JOB))
    assert [item.payload for item in segments] == sent
    page = list(opened.segments(JOB, after_position=segments[2].position, limit=2))
    assert page == segments[3:5]
    assert list(opened.segments(JOB, after_position=segments[-1].position)) == []
    assert opened.position(JOB) == 6 and opened.position("nobody") == 0


def test_positions_have_no_gap_and_repeats_take_none(opened: Store) -> None:
    """Random batches, in which most segments come several times, also twice in a batch."""
    draw = random.Random(0)
    stored_segments = stored([*run_segments(60), *run_segments(60, job=OTHER)])
    segment_keys: set[wire.SegmentKey] = set()
    for _ in range(12):
        batch = draw.choices(stored_segments, k=draw.randrange(1, 9))
        added = opened.add_segments(batch, RECEIVED)
        for sent, outcome in zip(batch, added, strict=True):
            assert outcome.new is (sent.segment.key not in segment_keys)
            segment_keys.add(sent.segment.key)
    for job in (JOB, OTHER):
        count = sum(key.job == job for key in segment_keys)
        assert positions(opened, job) == [*range(1, count + 1)]
        assert opened.position(job) == count


@pytest.mark.parametrize(
    ("remaining", "newest_missing"),
    [(range(1, 7), 0), ([2, 3, 5, 6], 4), ([2, 3, 4], 6), ([], 6), ([1, 2, 3, 4, 6], 5)],
)
def test_the_newest_position_that_is_missing_is_known(
    opened: Store, remaining: Iterable[int], newest_missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_PLACES_AT_ONCE", 2)
    fill(opened)
    table = schema.segment
    with opened.engine.begin() as connection:
        among = sa.and_(table.c.job == JOB, table.c.position.not_in(list(remaining)))
        connection.execute(sa.delete(table).where(among))
    assert opened.whole_after(JOB) == newest_missing
    assert opened.whole_after("nobody") == 0


def refuse(store: Store, sequence: int) -> None:
    """Let the database refuse segments of one sequence number whatever is tried."""
    with store._engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            change = f"ALTER TABLE segment ADD CHECK (sequence <> {sequence})"
        else:
            change = (
                "CREATE TRIGGER refuses BEFORE INSERT ON segment "
                f"WHEN new.sequence = {sequence} BEGIN SELECT raise(abort, 'refused'); END"
            )
        connection.exec_driver_sql(change)


def test_a_refused_segment_takes_no_position(opened: Store) -> None:
    refuse(opened, 3)
    stored_segments = stored(run_segments(30))
    added = opened.add_segments(stored_segments, RECEIVED)
    assert [outcome.new for outcome in added] == [True, True, False, True, True, True]
    assert "the database refuses it" in added[2].refusal
    assert positions(opened) == [1, 2, 3, 4, 5]
    repeats = opened.add_segments(stored_segments[:1] + stored_segments[2:3], RECEIVED)
    assert [bool(outcome.refusal) for outcome in repeats] == [False, True]
    assert opened.position(JOB) == 5


def test_two_collectors_that_write_at_once_share_one_order(url: str) -> None:
    """Both are sent all segments of two jobs, each in an order and in batches of its own."""
    stored_segments = stored([*run_segments(100), *run_segments(100, job=OTHER)])
    together = threading.Barrier(2)

    def write(seed: int) -> int:
        draw, store, new = random.Random(seed), Store(url), 0
        pending = draw.sample(stored_segments, len(stored_segments))
        together.wait()
        while pending:
            batch, pending = pending[:3], pending[3:]
            new += sum(outcome.new for outcome in store.add_segments(batch, RECEIVED))
        store.close()
        return new

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(write, range(2)))
    assert sum(counts) == len(stored_segments)
    store = Store(url)
    for job in (JOB, OTHER):
        assert positions(store, job) == [*range(1, 21)]
        payloads = {item.payload for item in store.segments(job)}
        assert payloads == {
            stored_segment.data
            for stored_segment in stored_segments
            if stored_segment.segment.key.job == job
        }
    store.close()


def test_processes_that_open_a_new_store_at_once_all_get_it(url: str) -> None:
    """A collector killed while it makes its tables, and the next one, may overlap."""
    openers = 4
    together = threading.Barrier(openers)

    def open_next(_: int) -> list[str]:
        together.wait()
        opened = Store(url)
        jobs = opened.jobs()
        opened.close()
        return jobs

    with ThreadPoolExecutor(openers) as pool:
        assert list(pool.map(open_next, range(openers))) == [[]] * openers


def test_the_jobs_that_wrote_last_are_the_newest(opened: Store) -> None:
    for number, job in enumerate(["a", "b", "c", "a"]):
        fresh = run_segments(5 * (number + 1), job=job)[number : number + 1]
        opened.add_segments(stored(fresh), RECEIVED + number)
    assert opened.jobs() == ["b", "c", "a"]
    assert opened.jobs(limit=1) == ["a"]


def test_how_long_logs_are_is_asked_without_reading_them(opened: Store) -> None:
    sent = fill(opened)
    many = [f"job-{number}" for number in range(1200)]
    assert opened.positions([*many, JOB, "nobody"]) == {JOB: len(sent)} != {}
    assert opened.positions([]) == {}
    added_again = opened.add_segments(stored(run_segments(5 * (len(sent) + 2))), RECEIVED)
    assert [outcome.position for outcome in added_again] == [0] * len(sent) + [
        len(sent) + 1,
        len(sent) + 2,
    ]


@pytest.mark.parametrize("position", [0, 3])
def test_no_query_sorts_payloads(store: Store, tmp_path: Path, position: int) -> None:
    fill(store)
    statements: list[tuple[str, Any]] = []

    def note(_c: object, _k: object, statement: str, parameters: Any, *_more: object) -> None:
        statements.append((statement, parameters))

    sa.event.listen(store._engine, "before_cursor_execute", note)
    list(store.segments(JOB, after_position=position, limit=10))
    statement, parameters = statements[0]
    with store._engine.connect() as connection:
        plan = connection.exec_driver_sql(f"explain query plan {statement}", parameters)
        lines = [row[3] for row in plan]
    assert "segment_position" in lines[0] and not any("ORDER BY" in line for line in lines)


def in_partitions(url: str) -> dict[str, int]:
    """Segments in each partition that has some."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(
            sa.text("SELECT tableoid::regclass::text AS name, count(*) FROM segment GROUP BY 1")
        ).all()
    engine.dispose()
    return {name: count for name, count in rows}


def test_on_postgresql_each_day_has_a_partition(postgresql: PostgresqlServer) -> None:
    """Clocks far from today's share one, until their day comes."""
    url = postgresql.new_database()
    store = Store(url)
    today = RECEIVED // DAY_NS

    def of_day(number: int, day: int) -> StoredSegment:
        day_segment = run_segments(5 * (number + 1))[number]
        return stored(
            [day_segment._replace(clock=day_segment.clock._replace(wall_ns=day * DAY_NS))]
        )[0]

    sent = [of_day(0, today), of_day(1, today - 7), of_day(2, today + 3), of_day(3, 0)]
    store.add_segments(sent, RECEIVED)
    assert in_partitions(url) == {
        f"segment_day_{today}": 1,
        f"segment_day_{today - 7}": 1,
        "segment_default": 2,
    }
    later = RECEIVED + 3 * DAY_NS
    added = store.add_segments([of_day(2, today + 3), of_day(4, today + 3)], later)
    assert [outcome.new for outcome in added] == [False, True]
    assert in_partitions(url)[f"segment_day_{today + 3}"] == 2
    assert positions(store) == [1, 2, 3, 4, 5]
    store.close()


def test_whoever_reads_for_long_holds_up_no_new_day(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup at midnight: the day's segments are stored, and move when it has ended."""
    monkeypatch.setattr(partitions, "LOCK_PATIENCE_MS", 20)
    url = postgresql.new_database()
    store = Store(url)
    stored_segments = stored(run_segments(10))
    reader = sa.create_engine(url)
    with reader.connect() as reading:
        reading.execute(sa.text("SELECT count(*) FROM segment"))
        assert store.add_segments(stored_segments[:1], RECEIVED)[0].new
        assert in_partitions(url) == {"segment_default": 1}
    reader.dispose()
    assert store.add_segments(stored_segments[1:], RECEIVED)[0].new
    assert in_partitions(url) == {"segment_default": 2}, "it is not tried each time"
    store.close()
    store = Store(url)
    assert [outcome.new for outcome in store.add_segments(stored_segments, RECEIVED)] == [
        False,
        False,
    ]
    (name,) = in_partitions(url)
    assert name.startswith("segment_day_") and positions(store) == [1, 2]
    store.close()
