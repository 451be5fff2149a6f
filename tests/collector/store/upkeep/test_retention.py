"""Data goes when its job wrote nothing for long, a little at a time, and never too early."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store, schema
from stepwatch.collector.store.bundles import making
from stepwatch.collector.store.snapshots import StoredSnapshot
from stepwatch.collector.store.upkeep import retention
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.collector.store.upkeep.counts import Upkeep
from stepwatch.collector.store.upkeep.removal import Keep, Removed
from stepwatch.collector.store.upkeep.retention import Retention
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals.clock import SystemClock
from tests.collector.made import EPOCH, HandClock, run_segments
from tests.collector.store.filled import (
    DAY_NS,
    RECEIVED,
    add_evaluation,
    add_run,
    positions,
    stored,
)
from tests.postgresql import PostgresqlServer

HOUR_NS = DAY_NS // 24
NOW = RECEIVED + 30 * DAY_NS
ALL = [1, 2, 3, 4, 5, 6]


@pytest.fixture
def months(opened: Store) -> Store:
    """Jobs whose last day lies 30, 10 and 0 days back, and one of 30 days with an open incident."""
    for job, day in (("old", 0), ("open", 0), ("recent", 20), ("running", 30)):
        add_run(opened, job, day)
    for job, state in (("old", "resolved"), ("open", "open"), ("recent", "resolved")):
        add_evaluation(opened, job, state)
    # It began as long ago as the old ones, and still writes.
    add_run(opened, "long", 0)
    add_run(opened, "long", 30)
    return opened


def test_each_turn_tidies_up_what_collectors_left_for_each_other(opened: Store) -> None:
    with opened.engine.begin() as connection:
        for name, as_of, wanted_ns in (
            ("old", 1.0, 0),
            ("new", 3e9, 0),
            ("asked", 0.0, 3 * 10**18),
        ):
            row = {"job": "job", "name": name, "as_of": as_of, "wanted_ns": wanted_ns}
            connection.execute(sa.insert(schema.view).values(**row))
        notice = {"job": "job", "tries": 1, "due_ns": 0, "document": {"at": 1.0}}
        for state in ("delivered", "failed", "pending"):
            row = {"key": state, "state": state, **notice}
            connection.execute(sa.insert(schema.outbox).values(**row))
    turns = iter([False, True])
    Retention(opened.engine, lambda _: next(turns)).run(Keep(), SystemClock())
    with opened.engine.connect() as connection:
        views = connection.execute(sa.select(schema.view.c.name)).scalars().all()
        outbox_rows = connection.execute(
            sa.select(schema.outbox.c.key, schema.outbox.c.state)
        ).all()
    assert sorted(views) == ["asked", "new"]
    assert [tuple(row) for row in outbox_rows] == [("pending", "failed")]


def test_segments_of_a_finished_job_go_after_two_weeks(months: Store) -> None:
    sizes = {job: months.payload_bytes(job) for job in ("old", "open", "recent", "long")}
    removed = Retention(months.engine).prune(Keep(), NOW)
    assert removed == [Removed("segments", "old", *sizes["old"])]
    assert positions(months, "old") == []
    assert positions(months, "long") == [*range(1, 13)], "it still receives"
    for job in ("open", "recent"):
        assert months.payload_bytes(job) == sizes[job]
    assert len(months.slices("old", "goodput")) == 2, "slices are kept"
    assert len(months.incidents.newest("old")) == 1, "and incidents"
    assert months.position("old") > 5, "the job has a past"


def saved(store: Store, job: str) -> list[int]:
    """Positions of the snapshots that a job has, newest first."""
    return [snapshot.position for snapshot in store.snapshots.newest_first(job)]


def test_the_newest_snapshot_outlives_the_segments_as_it_holds_the_totals(months: Store) -> None:
    for job in ("old", "recent", "open"):
        for position in (4, 6):
            snapshot = StoredSnapshot(position, b"totals")
            months.snapshots.save(job, snapshot, format=1, saved_ns=5)
    retention = Retention(months.engine)
    removed = retention.prune(Keep(), NOW)
    assert [(item.kind, item.job, item.rows) for item in removed] == [
        ("segments", "old", 6),
        ("snapshots", "old", 1),
    ]
    assert removed[1].bytes == len(b"totals")
    assert [saved(months, job) for job in ("old", "recent", "open")] == [[6], [6, 4], [6, 4]]
    removed = retention.prune(Keep(segments=None, slices=20), NOW)
    assert ("snapshots", "old", 1) in [(item.kind, item.job, item.rows) for item in removed]
    assert [saved(months, job) for job in ("old", "recent", "open")] == [[], [6, 4], [6, 4]]


def test_what_was_removed_is_counted_by_the_process_and_by_the_store(months: Store) -> None:
    keep, upkeep = Keep(slices=14), months.upkeep
    sizes = months.payload_bytes("old")
    nothing = dict(upkeep.removed)
    assert set(nothing.values()) == {(0, 0)} and months.upkeep.stored() == []
    Retention(months.engine, upkeep=upkeep).prune(keep, NOW)
    assert upkeep.removed == {**nothing, "segments": sizes, "slices": (2, 0)}
    assert upkeep.retention_s == NOW / 1e9
    Retention(months.engine, upkeep=upkeep).prune(keep, NOW + 60_000_000_000)
    assert upkeep.removed == {**nothing, "segments": sizes, "slices": (2, 0)}
    later = Upkeep(months.engine)
    counts = {(count.task, count.kind): count for count in later.stored()}
    assert counts["removed", "segments"][2:4] == sizes
    assert counts["removed", "segments"].last_ns == NOW
    assert counts["retention", ""].last_ns == NOW + 60_000_000_000


def test_a_dry_run_changes_nothing_and_says_what_would_go(months: Store) -> None:
    keep = Keep(segments=5, slices=5, incidents=5)
    once = Retention(months.engine).plan(keep, NOW)
    assert [(item.kind, item.job, item.rows) for item in once] == [
        ("segments", "old", 6),
        ("segments", "recent", 6),
        ("slices", "old", 2),
        ("slices", "recent", 2),
        ("incidents", "old", 1),
        ("incidents", "recent", 1),
    ]
    assert positions(months, "old") == positions(months, "recent") == ALL
    assert len(months.incidents.newest()) == 3
    assert Retention(months.engine).prune(keep, NOW) == once
    assert [item["job"] for item in months.incidents.newest()] == ["open"]
    assert months.slices("old", "goodput") == [] != months.slices("open", "goodput")


def test_no_setting_removes_what_came_within_a_day(months: Store) -> None:
    Retention(months.engine).prune(Keep(segments=0, slices=0, incidents=0), NOW)
    assert positions(months, "running") == ALL


def test_a_job_that_comes_back_while_it_is_removed_keeps_the_rest(
    months: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)

    def come_back(_: float) -> bool:
        add_run(months, "old", 30)
        return False

    assert Retention(months.engine, come_back).prune(Keep(), NOW) == []
    assert positions(months, "old") == [*range(3, 13)]


def test_a_metric_says_when_retention_last_ended(months: Store) -> None:
    Retention(months.engine, upkeep=months.upkeep).prune(Keep(), NOW)
    service = Service(months, HandClock(30 * 86400.0))
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    ended_s = registry.get_sample_value("stepwatch_collector_retention_timestamp_seconds", {})
    assert ended_s == NOW / 1e9


def incident_of(job: str, began_s: float, resolved_s: float, **changed: Any) -> dict[str, Any]:
    """A resolved incident between two times of the run's first day, in seconds."""
    times = {"began_at": EPOCH + began_s, "resolved_at": EPOCH + resolved_s}
    opened_at = EPOCH + began_s + 5
    fields = {"id": f"i-{began_s:g}", "job": job, "kind": "hang", "state": "resolved"}
    return {**fields, **times, "opened_at": opened_at, "last_seen_at": opened_at, **changed}


@pytest.fixture
def hours(opened: Store) -> Store:
    """Two jobs that sent a segment an hour, from 0 to 5 o'clock of the first day."""
    for job in ("one", "two"):
        for hour, item in enumerate(run_segments(30, job=job)):
            opened.add_segments(stored([item]), RECEIVED + hour * HOUR_NS)
    return opened


def test_what_a_kept_incident_refers_to_stays_with_it(hours: Store) -> None:
    """From ten minutes before it began to ten minutes after it was resolved; not of other jobs."""
    incidents = [incident_of("one", 4000, 3 * 3600 + 1), incident_of("one", 4 * 3600 + 601, 16000)]
    hours.save_evaluation("one", [], incidents)
    retention = Retention(hours.engine)
    (pinned,) = retention.pinned(Keep(), NOW)
    assert (pinned.kind, pinned.job, pinned.rows) == ("segments", "one", 3)
    planned = retention.plan(Keep(), NOW)
    assert [(item.job, item.rows) for item in planned] == [("one", 3), ("two", 6)]
    assert retention.prune(Keep(), NOW) == planned
    assert positions(hours, "one") == [2, 3, 4] and positions(hours, "two") == []
    retention.prune(Keep(incidents=15), NOW)
    assert hours.incidents.newest("one") == []
    retention.prune(Keep(), NOW)
    assert positions(hours, "one") == [], "no incident, no pin"


def test_nothing_is_pinned_for_ever(hours: Store) -> None:
    hours.save_evaluation("one", [], [incident_of("one", 0, 9 * 3600)])
    retention = Retention(hours.engine)
    retention.prune(Keep(pinned=31), NOW)
    assert positions(hours, "one") == ALL
    retention.prune(Keep(pinned=29), NOW)
    assert positions(hours, "one") == []


def test_an_incident_whose_document_is_damaged_pins_what_came_around_it(hours: Store) -> None:
    damaged = incident_of("one", 3600, 0, began_at="soon", resolved_at=None, last_seen_at=1e300)
    hours.save_evaluation("one", [], [damaged])
    Retention(hours.engine).prune(Keep(), NOW)
    assert positions(hours, "one") == [2]


def test_a_bundle_of_which_a_part_is_pinned_stays(
    hours: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MOST_SEGMENTS", 2)
    hours.snapshots.save("one", StoredSnapshot(6, b"x"), format=1, saved_ns=5)
    assert Compactor(hours.engine, lambda _: False).compact(Compaction(), NOW).bundles == 3
    hours.save_evaluation("one", [], [incident_of("one", 3 * 3600, 3 * 3600 + 10)])
    Retention(hours.engine).prune(Keep(), NOW)
    assert positions(hours, "one") == [3, 4]


def rounds(count: int) -> Callable[[float], bool]:
    """Says to stop after so many waits."""
    remaining = iter(range(count))
    return lambda _: next(remaining, None) is None


def test_a_collector_removes_from_time_to_time_and_says_so(
    months: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        Retention(months.engine, rounds(3)).run(Keep(), HandClock(30 * 86400.0))
    (line,) = caplog.messages
    assert "6 rows of 1 jobs" in line
    assert positions(months, "old") == []


def test_an_sqlite_file_becomes_smaller(store: Store) -> None:
    add_run(store, "running", 30)

    def pages() -> tuple[int, int]:
        with store.engine.connect() as connection:
            count, free = (
                int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
                for name in ("page_count", "freelist_count")
            )
        return count, free

    pages_before = pages()[0]
    for number in range(120):
        add_run(store, f"old-{number}", 0)
    assert pages()[0] > 2 * pages_before
    Retention(store.engine).prune(Keep(), NOW)
    pages_after, free = pages()
    assert pages_after <= pages_before + 5 and free == 0


def test_on_postgresql_a_day_that_nobody_needs_is_dropped_whole(
    postgresql: PostgresqlServer,
) -> None:
    store = Store(postgresql.new_database())
    for job, day in (("old", 0), ("older", 0), ("mixed", 1), ("open", 1), ("running", 30)):
        add_run(store, job, day)
    add_evaluation(store, "open", "open")
    first = RECEIVED // DAY_NS

    def days() -> list[str]:
        query = "SELECT relname FROM pg_class WHERE relname LIKE 'segment_day_%' AND relkind = 'r'"
        with store.engine.connect() as connection:
            return sorted(connection.execute(sa.text(query)).scalars())

    assert days() == [f"segment_day_{first + day}" for day in (0, 1, 30)]
    removed = Retention(store.engine).prune(Keep(), NOW)
    assert [item.job for item in removed] == ["mixed", "old", "older"]
    assert days() == [f"segment_day_{first + day}" for day in (1, 30)]
    assert positions(store, "open") == positions(store, "running") == ALL
    assert positions(store, "mixed") == positions(store, "old") == []
    add_run(store, "late", 0)
    assert positions(store, "late") == ALL, "what comes for a dropped day is stored all the same"
    store.close()
