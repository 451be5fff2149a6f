"""A restart loads the newest readable snapshot and folds only what came after it."""

from __future__ import annotations

import logging
import zlib
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime import snapshots
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.snapshot import STATE_VERSION, Document, frame, packed, unpacked
from stepwatch.collector.store import Store, schema
from stepwatch.signals.errors import StoreError
from tests.collector.histories import History, differences
from tests.collector.made import JOB, HandClock, body, run_segments

RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)
LATER = snapshots.LONGEST_SECONDS + 1.0


def job_of(service: Service) -> LiveJob:
    job_state = service.job(JOB)
    assert job_state is not None
    return job_state[0]


class Watched:
    """A store that notes which segments are read back."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[int] = []
        self._segments = store.segments
        monkeypatch.setattr(store, "segments", self.segments)

    def segments(self, job: str, **options: Any) -> Any:
        for stored in self._segments(job, **options):
            self.read.append(stored.position)
            yield stored


def saved_at(store: Store, clock: HandClock, *cuts: int) -> Service:
    """A service that was given the run, and saved it after so many segments.

    No time passes, so that moments of the monotonic clock are the same after a replay.
    """
    service = Service(store, clock)
    for number, item in enumerate(RUN, start=1):
        service.receive(body([item]))
        if number in cuts:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(snapshots, "LONGEST_SECONDS", 0.0)
                service.evaluate()
    assert service.snapshotter.counts["saved"] == len(cuts)
    return service


def damage(store: Store, *, all_of_them: bool = False) -> None:
    """Turn a byte in the newest snapshot, or in each."""
    table = schema.snapshot
    with store._engine.begin() as connection:
        rows = connection.execute(sa.select(table.c.id, table.c.payload).order_by(table.c.id)).all()
        for row in rows if all_of_them else rows[-1:]:
            damaged = bytearray(row.payload)
            damaged[len(damaged) // 2] ^= 0x40
            statement = sa.update(table).where(table.c.id == row.id)
            connection.execute(statement.values(payload=bytes(damaged)))


def test_only_what_came_after_the_snapshot_is_read_again(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = saved_at(store, clock, len(RUN) - 3)
    watched = Watched(store, monkeypatch)
    restarted = Service(store, clock)
    assert watched.read == list(range(len(RUN) - 2, len(RUN) + 1))
    assert differences(job_of(restarted), job_of(original)) == []


def test_a_job_is_saved_once_a_minute_while_a_replay_would_take_longer(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SEGMENT_SECONDS", 1e9)
    service = Service(store, clock)
    service.receive(body(RUN[:5]))
    for _ in range(10):
        service.evaluate()
        clock.advance(snapshots.EVERY_SECONDS / 5)
    assert service.snapshotter.counts["saved"] == 1, "after a minute, and then nothing came"
    service.receive(body(RUN[5:9]))
    clock.advance(LATER)
    service.evaluate()
    service.evaluate()
    assert service.snapshotter.counts["saved"] == 2


def test_a_job_with_few_segments_is_saved_each_five_minutes(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SEGMENT_SECONDS", 1e-12)
    service, saved = Service(store, clock), []
    for item in RUN[:8]:
        service.receive(body([item]))
        service.evaluate()
        clock.advance(snapshots.EVERY_SECONDS + 1.0)
        saved.append(service.snapshotter.counts["saved"])
    assert saved == [0, 1, 1, 1, 1, 1, 2, 2], "how long it takes is not known before"


def test_a_job_with_many_segments_is_saved_before_its_minute_is_over(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_SEGMENTS", 5)
    monkeypatch.setattr(snapshots, "MOST_SHARE", 1e9)
    service, saved = Service(store, clock), []
    for item in RUN[:12]:
        service.receive(body([item]))
        clock.advance(1.0)
        service.evaluate()
        saved.append(service.snapshotter.counts["saved"])
    assert saved == [0] * 4 + [1] * 5 + [2] * 3


def test_saving_before_the_minute_is_over_takes_a_small_share_of_the_time(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_SEGMENTS", 1)
    monkeypatch.setattr(snapshots, "MOST_SHARE", 1e-12)
    service = Service(store, clock)
    for item in RUN[:5]:
        service.receive(body([item]))
        service.evaluate()
        clock.advance(snapshots.EVERY_SECONDS / 100)
    assert service.snapshotter.counts["saved"] == 1, "how long it takes is not known before"


def test_a_collector_that_is_killed_every_few_seconds_reads_no_more_each_time(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, read = Watched(store, monkeypatch), []
    for item in RUN:
        service = Service(store, clock)
        read.append(len(watched.read))
        watched.read.clear()
        service.evaluate()
        service.receive(body([item]))
        service.evaluate()
        clock.advance(snapshots.EVERY_SECONDS / 10)
    assert max(read) == 1, "what came since the last start"


def test_a_clean_stop_saves_what_changed(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(store, clock)
    service.receive(body(RUN))
    service.stop()
    service.run(0.001)
    watched = Watched(store, monkeypatch)
    assert differences(job_of(Service(store, clock)), job_of(service)) == []
    assert watched.read == []


def test_a_damaged_snapshot_falls_back_to_the_one_before(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    original = saved_at(store, clock, 5, 12)
    damage(store)
    watched = Watched(store, monkeypatch)
    with caplog.at_level(logging.WARNING):
        restarted = Service(store, clock)
    assert watched.read[0] == 6
    assert restarted.snapshotter.counts["unreadable"] == 1
    assert f"a snapshot of {JOB} is left out: its checksum does not match" in caplog.text
    assert differences(job_of(restarted), job_of(original)) == []


def test_where_none_can_be_read_the_log_has_everything(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = saved_at(store, clock, 5, 12)
    damage(store, all_of_them=True)
    watched = Watched(store, monkeypatch)
    restarted = Service(store, clock)
    assert watched.read == list(range(1, len(RUN) + 1))
    assert restarted.snapshotter.counts["unreadable"] == 2
    assert differences(job_of(restarted), job_of(original)) == []


def test_a_snapshot_of_another_version_is_left_out(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(frame, "STATE_VERSION", STATE_VERSION + 1)
        original = saved_at(store, clock, 5)
    restarted = Service(store, clock)
    assert restarted.snapshotter.counts["unreadable"] == 1
    assert differences(job_of(restarted), job_of(original)) == []


def test_damage_behind_a_right_checksum_falls_back_to_the_log(
    store: Store, clock: HandClock
) -> None:
    original = saved_at(store, clock, 5)
    (stored,) = store.snapshots.newest_first(JOB)
    about, _ = unpacked(stored.payload)
    odd = Document(["number", "|i1", 300], [])
    with store._engine.begin() as connection:
        payload = packed(odd, about)
        checksum = {"payload": payload, "crc32": zlib.crc32(payload), "size": len(payload)}
        connection.execute(sa.update(schema.snapshot).values(**checksum))
    restarted = Service(store, clock)
    assert restarted.snapshotter.counts["unreadable"] == 1
    assert differences(job_of(restarted), job_of(original)) == []


def test_what_is_left_of_a_pruned_log_is_no_history(
    store: Store, clock: HandClock, caplog: Any
) -> None:
    saved_at(store, clock, len(RUN))
    stored_slices = store.slices(JOB, "goodput")
    table = schema.segment
    with store._engine.begin() as connection:
        connection.execute(sa.delete(table).where(table.c.position.not_in([4, 5, 6])))
    damage(store, all_of_them=True)
    with caplog.at_level(logging.WARNING):
        restarted = Service(store, clock)
    restarted.evaluate()
    assert f"{JOB} starts over after position {len(RUN)}" in caplog.text
    assert restarted.job(JOB) is None
    assert store.slices(JOB, "goodput") == stored_slices
    later_segments = run_segments(70)[len(RUN) :]
    restarted.receive(body(later_segments))
    restarted.evaluate()
    assert job_of(restarted).current.steps.history.first == 60
    by_start = {part.start_s: part for part in store.slices(JOB, "goodput")}
    assert all(by_start[part.start_s] == part for part in stored_slices[:-1])


def test_two_snapshots_of_a_job_are_kept(store: Store, clock: HandClock) -> None:
    saved_at(store, clock, 2, 4, 6, 8)
    positions = [stored.position for stored in store.snapshots.newest_first(JOB)]
    assert positions == [8, 6]


def test_a_snapshot_of_another_job_is_left_out(store: Store, clock: HandClock) -> None:
    original = saved_at(store, clock, 5)
    with store._engine.begin() as connection:
        connection.execute(sa.update(schema.snapshot).values(position=9))
    restarted = Service(store, clock)
    assert restarted.snapshotter.counts["unreadable"] == 1
    assert differences(job_of(restarted), job_of(original)) == []


def test_a_state_that_cannot_be_stored_stops_nothing(
    store: Store, clock: HandClock, caplog: Any
) -> None:
    service = Service(store, clock)
    service.receive(body(RUN))
    service.evaluate()
    job_of(service).current.offsets["strange"] = object()  # type: ignore[assignment]
    clock.advance(LATER)
    service.evaluate()
    counts = service.snapshotter.counts
    assert counts == {"saved": 0, "failed": 1, "unreadable": 0}
    assert f"cannot save the state of {JOB}: builtins:object is not a class" in caplog.text
    assert service.job(JOB) is not None and service.withheld() == {}


def test_a_job_may_be_forgotten_while_another_is_saved(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(store, clock)
    service.receive(body([*run_segments(8, job="other"), *RUN]))
    service.evaluate()
    clock.advance(LATER)

    def saved(*_args: Any, **_options: Any) -> None:
        for name in (JOB, "other"):
            service.snapshotter.forget(name)

    monkeypatch.setattr(store.snapshots, "save", saved)
    service.evaluate()
    assert service.snapshotter.counts == {"saved": 1, "failed": 0, "unreadable": 0}


def test_a_full_disk_keeps_the_snapshots_that_are_there(store: Store, clock: HandClock) -> None:
    service = saved_at(store, clock, 5)
    service.receive(body(run_segments(8, job="other")))
    with store._engine.connect() as connection:
        pages = connection.execute(sa.text("PRAGMA page_count")).scalar_one()
    sa.event.listen(
        store._engine,
        "begin",
        lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={pages}"),
    )
    clock.advance(LATER)
    service.evaluate()
    assert service.snapshotter.counts["failed"] >= 1
    assert [stored.position for stored in store.snapshots.newest_first(JOB)] == [5]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_lost_the_state_is_that_of_the_whole_log(
    seed: int, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LONGEST_SECONDS", 0.0)
    service = Service(store, clock)
    for number, (segment, _) in enumerate(History(seed).segments(30)):
        service.receive(body([segment]))
        if number % (3 * seed + 1) == 0:
            service.evaluate()
    if seed % 3:
        damage(store, all_of_them=seed % 3 == 2)
    assert differences(job_of(Service(store, clock)), replayed(store, clock)) == []


def replayed(store: Store, clock: HandClock) -> LiveJob:
    """The job as its log alone gives it."""
    with store._engine.begin() as connection:
        connection.execute(sa.delete(schema.snapshot))
    return job_of(Service(store, clock))


def test_a_store_that_does_not_answer_is_said_at_the_start(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved_at(store, clock, 5)

    def unavailable(_job: str) -> Any:
        raise sa.exc.OperationalError("SELECT", {}, Exception("disk I/O error"))

    monkeypatch.setattr(store.snapshots, "newest_first", unavailable)
    with pytest.raises(StoreError, match="disk I/O error"):
        Service(store, clock)
