"""A job that is not in memory comes back from the store beside requests, never inside one."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from stepwatch.collector.runtime import restore, service
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.holding import held
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals import names
from tests.collector.client import Client
from tests.collector.histories import History, differences
from tests.collector.made import JOB, HandClock, body, run_segments

RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)


def view(service: Service) -> Any:
    job_state = service.job(JOB)
    assert job_state is not None
    return job_view.job_summary(*job_state, service.now())


@pytest.fixture
def without_job(store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service that started without a job of which the store holds ten segments."""
    Service(store, clock).receive(body(RUN[:10]))
    with monkeypatch.context() as patch:
        patch.setattr(service, "MAX_RESTORED_JOBS", 0)
        return Service(store, clock)


def test_a_request_reads_no_history(
    without_job: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise AssertionError("a request reads the job's history")

    with monkeypatch.context() as patch:
        patch.setattr(store, "segments", refuse)
        verdicts = without_job.receive(body([RUN[10]]))
    assert [item.verdict for item in verdicts] == ["accepted"]
    assert without_job.job(JOB) is None
    assert without_job.withheld()[JOB].state == "restoring"
    without_job.evaluate()
    assert view(without_job)["step"] == 54
    assert without_job.withheld() == {}


def test_segments_that_arrive_meanwhile_are_applied_once_and_in_order(
    without_job: Service, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "PAGE_SEGMENTS", 2)
    monkeypatch.setattr(restore, "BUDGET_SECONDS", 0.0)
    without_job.receive(body([RUN[10]]))
    ticks = 0
    while without_job.job(JOB) is None:
        without_job.evaluate()
        ticks += 1
        assert ticks < 30
        if ticks in (2, 4):
            without_job.receive(body([RUN[10], RUN[11]]))
    assert ticks > 5, "a page at a time"
    job_state = without_job.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].tolist() == [4] * 60
    fresh = Service(store, clock)
    fresh.evaluate()
    without_job.evaluate()
    assert view(without_job) == view(fresh)


def test_whoever_asks_meanwhile_is_told(without_job: Service) -> None:
    without_job.receive(body([RUN[10]]))
    client = Client(make_api(without_job))
    assert [line["state"] for line in client.get("/v1/jobs").json()["jobs"]] == ["restoring"]
    registry = CollectorRegistry()
    registry.register(JobExporter(without_job))
    text = generate_latest(registry).decode()
    assert f"{names.COLLECTOR_JOBS_RESTORING.name} 1.0" in text
    assert JOB not in text, "its counters would begin in between"


def test_a_new_job_is_there_at_once(service: Service) -> None:
    service.receive(body([*RUN[:2], RUN[0]]))
    assert view(service)["step"] == 9


def test_a_store_that_fails_meanwhile_is_asked_again(
    without_job: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_args: object, **_more: object) -> None:
        raise sa.exc.OperationalError("select", {}, OSError("disk I/O error"))

    without_job.receive(body([RUN[10]]))
    with monkeypatch.context() as patch:
        patch.setattr(store, "segments", unavailable)
        without_job.evaluate()
    assert without_job.evaluation_failures == 1
    assert without_job.withheld()[JOB].state == "restoring"
    without_job.evaluate()
    assert view(without_job)["step"] == 54


def test_large_payloads_are_read_a_few_at_a_time(
    without_job: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "PAGE_BYTES", 1)
    monkeypatch.setattr(restore, "BUDGET_SECONDS", 0.0)
    without_job.receive(body([RUN[10]]))
    ticks = 0
    while without_job.job(JOB) is None:
        without_job.evaluate()
        ticks += 1
        assert ticks < 30
    assert ticks == 11, "each of eleven segments is a page"
    assert view(without_job)["step"] == 54


def test_segments_that_unfold_to_much_do_not_wait_for_the_page(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Service(store, clock).receive(body(RUN))
    waiting: list[int] = []
    append = LiveJob.append

    def watched(self: LiveJob, *args: Any) -> None:
        append(self, *args)
        waiting.append(self.pending_bytes)

    monkeypatch.setattr(LiveJob, "append", watched)
    monkeypatch.setattr(held, "FOLD_BYTES", 10_000)
    job_state = Service(store, clock).job(JOB)
    assert job_state is not None and len(job_state[0].current.steps.history) == 60
    assert len(waiting) == len(RUN) and 10_000 < max(waiting) < 30_000


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_knows_bit_by_bit_what_was_known(
    store: Store, clock: HandClock, seed: int
) -> None:
    """However the segments were folded live, and however the pages are cut."""
    live = Service(store, clock)
    for index, (item, _) in enumerate(History(seed).segments(60)):
        live.receive(body([item]))
        if index % (seed + 2) == 0:
            live.jobs_now()
    live_state, restored_state = live.job(JOB), Service(store, clock).job(JOB)
    assert live_state is not None and restored_state is not None
    assert differences(live_state[0], restored_state[0]) == []
