"""Segments are put together without anybody noticing: what is read, known and counted stays."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store, StoredPayload, schema
from stepwatch.collector.store.bundles import frame, making
from stepwatch.collector.store.snapshots import StoredSnapshot
from stepwatch.collector.store.upkeep import copies
from stepwatch.collector.store.upkeep.checks import problems
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.collector.store.upkeep.removal import Keep
from stepwatch.collector.store.upkeep.retention import Retention
from stepwatch.collector.store.upkeep.sizes import size_of
from stepwatch.collector.store.upkeep.turn import turn
from stepwatch.signals import wire
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.store.filled import DAY_NS, OTHER, RECEIVED, positions, stored

RUN = run_segments(150, excess={(2, "forward"): 0.2}, slow_from=80)
COUNT = len(RUN)
LATER = RECEIVED + 2 * 3600 * 1_000_000_000
SOON = RECEIVED + 60 * 1_000_000_000


def snapshot(store: Store, position: int = COUNT, job: str = JOB) -> None:
    """A snapshot that includes the log up to a position; nobody reads it here."""
    store.snapshots.save(job, StoredSnapshot(position, b"damaged"), format=1, saved_ns=5)


def compact(store: Store, now_ns: int = LATER) -> making.BundleTotals:
    return Compactor(store.engine, lambda _: False, store.upkeep).compact(Compaction(), now_ns)


def loose(store: Store, job: str = JOB) -> list[int]:
    """Positions of segments that are in no bundle."""
    table = schema.segment
    query = sa.select(table.c.position).where(table.c.job == job).order_by(table.c.position)
    with store.engine.connect() as connection:
        return list(connection.execute(query).scalars())


def read(store: Store, **options: Any) -> list[tuple[int, int, bytes]]:
    """Positions, times and contents of a job's segments."""
    segments = store.segments(JOB, **options)
    return [(s.position, s.received_ns, wire.encode(s.segment())) for s in segments]


def test_what_cannot_be_put_together_stays_as_it_is(
    filled: Store, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    snapshot(filled)
    original = read(filled)

    def broken(_: object) -> bytes:
        raise ValueError("cannot reshape")

    monkeypatch.setattr(making, "packed", broken)
    with caplog.at_level(logging.WARNING):
        assert compact(filled).bundles == 0
    assert read(filled) == original and len(loose(filled)) == COUNT
    assert "stay as they are: cannot reshape" in caplog.text


def test_a_bundle_that_reads_back_otherwise_is_not_stored(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(filled)
    original, unpacked = read(filled), frame.unpacked

    def alter_bundle(data: bytes) -> Any:
        bundle = unpacked(data)
        bundle.received_ns = [0] * len(bundle.positions)
        return bundle

    monkeypatch.setattr(making, "unpacked", alter_bundle)
    assert compact(filled).bundles == 0
    assert read(filled) == original and len(loose(filled)) == COUNT


@pytest.fixture
def filled(opened: Store) -> Store:
    """A job with a log, of which three come apart; and another."""
    for item in RUN[:3]:
        opened.add_segments(stored([item]), RECEIVED)
    opened.add_segments(stored(RUN[3:]), RECEIVED + 7)
    opened.add_segments(stored(run_segments(60, job=OTHER)), RECEIVED)
    return opened


def test_what_is_read_is_the_same_from_every_position(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MOST_SEGMENTS", 10)
    original, size = read(filled), filled.payload_bytes(JOB)
    snapshot(filled, COUNT - 2)
    compaction = compact(filled)
    assert (compaction.segments, compaction.bundles) == (28, 3), "the last of them eight segments"
    assert loose(filled) == [29, 30], "what the snapshot does not include stays"
    assert loose(filled, OTHER) == [*range(1, 13)], "nor what has no snapshot at all"
    assert read(filled) == original
    for position in (0, 1, 10, 11, 12, 27, 28, 29, 30, 99):
        assert read(filled, after_position=position) == [
            item for item in original if item[0] > position
        ]
        assert (
            read(filled, after_position=position, limit=5)
            == read(filled, after_position=position)[:5]
        )
    count, bytes_now = filled.payload_bytes(JOB)
    assert count == COUNT and bytes_now < size[1]
    (job_size, _) = size_of(filled.engine).jobs
    assert (job_size.segments, job_size.records, job_size.bytes) == (
        COUNT,
        150 * 4 + 30 * 4 + 4,
        bytes_now,
    )
    assert list(problems(filled.engine)) == []


def test_what_is_young_or_little_waits(filled: Store) -> None:
    snapshot(filled, 7)
    assert compact(filled) == making.BundleTotals(), "seven are too few"
    snapshot(filled, 20)
    assert compact(filled, SOON) == making.BundleTotals()
    assert compact(filled, SOON + 600 * 1_000_000_000) == making.BundleTotals(), "not full, not old"
    assert compact(filled).segments == 20
    assert Compactor(filled.engine).compact(Compaction(age_s=None), LATER) == making.BundleTotals()


def test_full_bundles_need_not_wait(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MOST_RECORDS", 200)
    snapshot(filled)
    compaction = compact(filled, RECEIVED + 700 * 1_000_000_000)
    assert compaction.bundles == 3 and compaction.segments == COUNT - len(loose(filled)) == 24


def test_repeats_are_known_by_every_collector(filled: Store) -> None:
    other_store = Store(filled.engine.url)
    assert [outcome.new for outcome in other_store.add_segments(stored(RUN[:2]), LATER)] == [
        False,
        False,
    ]
    snapshot(filled, 20)
    compact(filled)
    repeats = stored([*RUN[18:22], *run_segments(155)[30:], RUN[0]])
    for store in (filled, other_store):
        added = store.add_segments(repeats, LATER)
        assert [outcome.new for outcome in added] == [False] * 4 + [store is filled, False]
    assert positions(filled) == [*range(1, COUNT + 2)] and filled.position(JOB) == COUNT + 1
    assert list(problems(filled.engine)) == []
    other_store.close()


def test_ranges_of_keys_grow_and_a_gap_is_filled(opened: Store) -> None:
    """Of one spool every third segment is late, as if an agent had sent two ways at once."""
    early_segments = [item for number, item in enumerate(RUN) if number % 3]
    opened.add_segments(stored(early_segments), RECEIVED)
    snapshot(opened, len(early_segments))
    compact(opened)
    assert [outcome.new for outcome in opened.add_segments(stored(RUN), RECEIVED)] == [
        number % 3 == 0 for number in range(COUNT)
    ]
    snapshot(opened)
    compact(opened)
    assert loose(opened) == []
    assert not any(outcome.new for outcome in opened.add_segments(stored(RUN), RECEIVED))
    assert positions(opened) == [*range(1, COUNT + 1)]


class Stop(Exception):
    """The process is killed before a statement."""


def test_killed_before_any_statement_nothing_is_lost_or_doubled(filled: Store) -> None:
    """What a transaction did is undone when its process dies; here its connection is closed."""
    snapshot(filled)
    original = read(filled)
    allowed, statements = 0, 0

    def stop(*_: object) -> None:
        nonlocal statements
        statements += 1
        if statements > allowed:
            raise Stop

    while True:
        allowed, statements = allowed + 1, 0
        sa.event.listen(filled.engine, "before_cursor_execute", stop)
        try:
            compact(filled)
        except Stop:
            pass
        else:
            break
        finally:
            sa.event.remove(filled.engine, "before_cursor_execute", stop)
        assert read(filled) == original
        assert list(problems(filled.engine)) == []
    assert allowed > 6 and loose(filled) == []
    assert read(filled) == original
    assert not any(outcome.new for outcome in filled.add_segments(stored(RUN), LATER))


def test_a_log_that_changes_meanwhile_is_left_alone(filled: Store) -> None:
    """Another collector puts the same segments together, or retention removes some."""
    snapshot(filled)
    behind = making.Behind(JOB, 0, COUNT)
    with filled.engine.connect() as connection:
        chosen = making.choose(connection, behind, before_ns=LATER, partly_before_ns=LATER)
        bundling = making.Bundling(connection, behind, chosen)
    with filled.engine.begin() as connection:
        connection.execute(sa.delete(schema.segment).where(schema.segment.c.position == 5))
    with filled.engine.connect() as connection:
        assert not bundling.store(connection)
        connection.rollback()
    assert compact(filled).segments == COUNT - 1
    with filled.engine.connect() as connection:
        assert not bundling.store(connection)
    assert positions(filled) == [*range(1, 5), *range(6, COUNT + 1)]


def test_a_segment_that_cannot_be_read_stays_as_it_is(
    filled: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with filled.engine.begin() as connection:
        damage = sa.update(schema.segment).where(schema.segment.c.position == 9)
        connection.execute(damage.values(payload=b"rubbish"))
    snapshot(filled)
    assert compact(filled).segments == COUNT - 1
    assert loose(filled) == [9] and f"segment 9 of {JOB} stays" in caplog.text
    assert compact(filled) == making.BundleTotals()
    assert positions(filled) == [*range(1, COUNT + 1)]


def test_a_job_read_out_of_bundles_is_the_same(filled: Store) -> None:
    def shown() -> Any:
        job_state = Service(filled, HandClock(60.0)).job(JOB)
        assert job_state is not None
        history = job_state[0].current.steps.history
        return history.rows.tobytes(), job_state[0].totals.rows, job_state[0].received_s

    original = shown()
    snapshot(filled, COUNT - 3)
    assert compact(filled).segments == COUNT - 3
    assert shown() == original


def test_a_damaged_bundle_is_named_and_its_segments_counted(
    filled: Store, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot(filled, COUNT - 1)
    compact(filled)
    with filled.engine.begin() as connection:
        damage = sa.update(schema.bundle).values(payload=b"SWBN" + bytes(40))
        connection.execute(damage)
    service = Service(filled, HandClock(60.0))
    assert service.restorer.unreadable == COUNT - 1
    assert f"positions 1 to {COUNT - 1} in a bundle: " in caplog.text
    job_state = service.job(JOB)
    assert job_state is not None, "the newest segment could be read"
    (problem,) = problems(filled.engine)
    assert problem.startswith(f"the bundle of segments 1 to {COUNT - 1} of job {JOB} is damaged")


def test_whoever_reads_meanwhile_gets_each_segment_once(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is asked for just before a bundle takes the place of its segments."""
    snapshot(filled)
    reading = filled.segments(JOB)
    first = next(reading)
    if filled.engine.dialect.name == "sqlite":
        assert [first.position, *(s.position for s in reading)] == [*range(1, COUNT + 1)]
        return
    compact(filled)
    assert [first.position, *(s.position for s in reading)] == [*range(1, COUNT + 1)]


def test_a_backup_holds_bundles_and_retention_removes_them(filled: Store, tmp_path: Path) -> None:
    snapshot(filled)
    original = read(filled)
    compaction = compact(filled)
    copies.back_up(filled.engine, tmp_path / "backup.db")
    backup = Store.sqlite(tmp_path / "backup.db")
    assert read(backup) == original and list(problems(backup.engine)) == []
    assert not any(outcome.new for outcome in backup.add_segments(stored(RUN), LATER))
    backup.close()
    removed = Retention(filled.engine).prune(Keep(), RECEIVED + 30 * DAY_NS)
    assert [(item.kind, item.job, item.rows, item.bytes) for item in removed[1:]] == [
        ("bundles", JOB, 1, compaction.bytes_after)
    ]
    assert read(filled) == []
    with filled.engine.connect() as connection:
        assert connection.execute(sa.select(schema.bundle_key)).all() == []


def test_one_collector_at_a_time_compacts(filled: Store) -> None:
    snapshot(filled)
    with turn(filled.engine) as has_turn:
        assert has_turn
        assert compact(filled).segments == 0
    assert compact(filled).segments == COUNT


def test_a_segment_of_a_bundle_equals_the_one_that_came(filled: Store) -> None:
    original: list[StoredPayload] = list(filled.segments(JOB))
    snapshot(filled)
    compact(filled)
    assert list(filled.segments(JOB)) == original
    verdicts = Service(filled, HandClock(60.0)).receive(body(RUN))
    assert {item.verdict for item in verdicts} == {"duplicate"}


def test_a_collector_says_what_it_put_together(
    filled: Store, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot(filled)
    turns = iter([False, False, True])
    compactor = Compactor(filled.engine, lambda _: next(turns), filled.upkeep)
    with caplog.at_level(logging.INFO):
        compactor.run(Compaction(), HandClock(3 * 3600.0))
    assert f"put {COUNT} segments of" in caplog.text and "together: 1 bundles" in caplog.text
    stored_counts = {(count.task, count.kind): count.rows for count in filled.upkeep.stored()}
    assert stored_counts["compacted", "segments"] == COUNT == filled.upkeep.totals.segments
