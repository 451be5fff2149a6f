"""What a restarted collector knows is what it knew; what was acknowledged is there, once."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime import service
from stepwatch.collector.runtime.evaluation import evaluator
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.closing import Limits
from stepwatch.collector.state import live
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view
from stepwatch.signals import wire
from stepwatch.signals.errors import StoreError
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, make_rows
from stepwatch.signals.wire import Segment
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)
from tests.collector.process import Process


def view(service: Service, job: str = JOB) -> Any:
    job_state = service.job(job)
    assert job_state is not None
    return job_view.job_summary(*job_state, service.now())


def eventful_run() -> list[wire.Segment]:
    """A straggler, checkpoints, a failure, and a second attempt that resumes at step 40."""
    first = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)
    ranks = range(4)
    more: list[dict[Kind, wire.Rows]] = [
        {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.WRITTEN, ranks, 40)},
        {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.VERIFIED, ranks, 40)},
        {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [1], time_s=12.0)},
    ]
    last = [segment(100 + number, tables) for number, tables in enumerate(more)]
    second = segment(
        200,
        {
            Kind.LIFECYCLE: np.concatenate(
                [
                    lifecycle_rows(LifecycleEvent.START, ranks, 4, time_s=20.0),
                    lifecycle_rows(LifecycleEvent.RESUME, ranks, 40, time_s=21.0),
                ]
            ),
            Kind.RANK_STATE: state_rows(ranks, 4, 30.0),
            Kind.STEP: step_rows(range(40, 60), ranks, began=14.0),
        },
        attempt=1,
    )
    return [*first, *last, second]


def test_a_restart_rebuilds_what_was_known(store: Store, clock: HandClock) -> None:
    original = Service(store, clock)
    for item in eventful_run():
        original.receive(body([item]))
        original.evaluate()
        clock.advance(0.5)
    expected_view = view(original)
    assert {item["kind"] for item in expected_view["incidents"]} == {"straggler"}
    assert [item["redone_from"] for item in expected_view["attempts"]] == [40, None]
    assert expected_view["slos"][0]["ratio"] is not None
    restarted = Service(store, clock)
    assert view(restarted) == expected_view
    restarted.evaluate()
    assert view(restarted) == expected_view, "a second look at the same facts changes nothing"


def healthy(number: int, steps: range) -> Segment:
    """A segment with steps of all ranks, a minute after the run's first ones."""
    began, ranks = 60.0, range(4)
    states = state_rows(ranks, 4, began + 0.2 * steps.stop, steps.stop)
    tables = {Kind.STEP: step_rows(steps, ranks, began=began), Kind.RANK_STATE: states}
    return segment(number, tables)


def test_a_long_restart_is_no_time_without_a_finding(store: Store, clock: HandClock) -> None:
    original = Service(store, clock)
    original.receive(body(run_segments(40, excess={(2, "forward"): 0.2}, slow_from=20)))
    original.evaluate()
    assert [item["state"] for item in view(original)["incidents"]] == ["open"]
    clock.advance(60.0)
    restarted = Service(store, clock)
    restarted.receive(body([healthy(900, range(40, 140))]))
    restarted.evaluate()
    assert [item["state"] for item in view(restarted)["incidents"]] == ["open"]
    for number in range(20):
        clock.advance(1.0)
        restarted.receive(body([healthy(901 + number, range(140 + 5 * number, 145 + 5 * number))]))
        restarted.evaluate()
    assert [item["state"] for item in view(restarted)["incidents"]] == ["resolved"]


def test_a_job_beyond_the_restored_ones_comes_back_whole(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Service(store, clock)
    run = run_segments(40, excess={(2, "forward"): 0.2}, slow_from=20)
    original.receive(body(run))
    original.evaluate()
    opened = view(original)["incidents"]
    assert [item["state"] for item in opened] == ["open"]
    clock.advance(0.001)  # of two that wrote at once either may be the newer
    original.receive(body(run_segments(10, job="other")))
    monkeypatch.setattr(service, "MAX_RESTORED_JOBS", 1)
    restarted = Service(store, clock)
    assert restarted.job(JOB) is None
    more = step_rows(range(40, 45), range(4), excess={(2, "forward"): 0.2})
    restarted.receive(body([segment(900, {Kind.STEP: more})]))
    restarted.evaluate()
    assert view(restarted)["step"] == 44
    assert [item["id"] for item in view(restarted)["incidents"]] == [opened[0]["id"]]
    assert len(store.incidents.newest(JOB)) == 1, "no second incident for the same fault"


def test_the_first_request_of_a_job_counts_once(store: Store, clock: HandClock) -> None:
    gap = make_rows(Kind.GAP, 1, rank=0, first_seq=1, last_seq=5)
    service = Service(store, clock)
    service.receive(body([*run_segments(10), segment(70, {Kind.GAP: gap})]))
    assert view(service)["lost_records"] == 5
    service.receive(body([segment(71, {Kind.GAP: gap})]))
    assert view(service)["lost_records"] == 10 == view(Service(store, clock))["lost_records"]


def test_jobs_beyond_the_limit_leave_aloud_and_come_back(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(live, "MAX_JOBS", 3)
    service = Service(store, clock)
    for number in range(5):
        service.receive(body(run_segments(5, job=f"job-{number}")))
        service.evaluate()
    assert [job.name for job, _ in service.jobs_now()[0]] == ["job-4", "job-3", "job-2"]
    assert service.state.forgotten == 2
    assert "stops evaluating job-0" in caplog.text
    more = segment(50, {Kind.STEP: step_rows(range(5, 8), range(4))}, "job-0")
    service.receive(body([more, more]))
    service.evaluate()
    assert view(service, "job-0")["step"] == 7
    assert service.job("job-2") is None


def test_a_reader_of_a_long_log_writes_nothing(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(store, clock)
    service.receive(b"".join(map(wire.encode, eventful_run())))
    monkeypatch.setattr(evaluator, "CATCH_UP_STEPS", 0)
    monkeypatch.setattr(evaluator, "Limits", lambda: Limits(retained=8, more=2, incomplete=9))
    written: list[str] = []

    def note(*words: Any) -> None:
        if words[2].lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE"):
            written.append(words[2])

    sa.event.listen(store.engine, "before_cursor_execute", note)
    reader = Service(store, clock, reads_only=True)
    job_state = reader.job(JOB)
    assert job_state is not None and len(job_state[0].attempts[0].steps.history.rows) < 60, (
        "some went"
    )
    assert written == []
    Service(store, clock).evaluate()
    assert any("sli_slice" in statement for statement in written)


def test_a_damaged_store_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = Store.sqlite(path)
    Service(store, HandClock()).receive(body(run_segments(400)))
    store.close()
    data = bytearray(path.read_bytes())
    assert len(data) > 16 * 4096
    for page in range(12, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    path.write_bytes(data)
    with pytest.raises(StoreError) as refused:
        Service(Store.sqlite(path), HandClock())
    assert "\n" not in str(refused.value)


def test_kill_9_in_a_loop_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    collector = Process(tmp_path)
    waiting = run_segments(400, seconds=0.01)
    acknowledged: list[str] = []
    kills, next_kill = 0, time.monotonic() + 3.0
    deadline = time.monotonic() + 300
    collector.start()
    try:
        while (waiting or kills < 3) and time.monotonic() < deadline:
            if time.monotonic() > next_kill and kills < 3:
                threshold = random.Random(kills).uniform(1.5, 2.5)
                collector.end()
                collector.start()
                kills, next_kill = kills + 1, time.monotonic() + threshold
            batch = waiting[:3]
            try:
                answer = collector.send(body(batch))
            except httpx.HTTPError:
                time.sleep(0.02)
                continue
            acknowledged += [item["verdict"] for item in answer.json()["verdicts"]]
            waiting = waiting[3:]
            time.sleep(0.1)
    finally:
        collector.end()
    assert kills == 3 and not waiting
    assert set(acknowledged) <= {"accepted", "duplicate"} and len(acknowledged) == 80
    store = Store.sqlite(tmp_path / "store.db")
    cells = [
        (int(row["rank"]), int(row["step"]))
        for payload, *_ in store.segments(JOB)
        for row in wire.decode(payload).tables[Kind.STEP]
    ]
    assert sorted(cells) == sorted((rank, step) for rank in range(4) for step in range(400))
    service = Service(store, HandClock(60.0))
    assert view(service)["step"] == 399
    store.close()
