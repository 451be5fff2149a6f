"""A request stores and no more; what waits is folded in by whoever reads, and is bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state import live
from stepwatch.collector.state.holding.log_cursor import waiting_bytes
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import LiveState
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.web.metrics import JobExporter
from tests.collector.made import JOB, body, run_segments


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of jobs in the order in which something was folded into them."""
    names: list[str] = []
    fold = LiveJob.fold

    def watched(self: LiveJob) -> None:
        if self.pending_bytes:
            names.append(self.name)
        fold(self)

    monkeypatch.setattr(LiveJob, "fold", watched)
    return names


def scrape(service: Service) -> None:
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    generate_latest(registry)


READERS: dict[str, Callable[[Service], Any]] = {
    "the evaluation": lambda service: service.evaluate(),
    "the list of jobs": lambda service: service.jobs_now(),
    "one job": lambda service: service.job(JOB),
    "a scrape": scrape,
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_folds_in_what_waits_once(
    service: Service, folded: list[str], reader: str
) -> None:
    for item in run_segments(20):
        service.receive(body([item]))
    assert folded == [], "not within a request"
    READERS[reader](service)
    READERS[reader](service)
    assert folded == [JOB]
    job_state = service.job(JOB)
    assert job_state is not None and len(job_state[0].current.steps.history) == 20


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, folded: list[str]) -> None:
    monkeypatch.setattr(live, "MAX_PENDING_BYTES", 60_000)
    state, most = LiveState(), 0
    for position, item in enumerate(run_segments(100, job="one"), start=1):
        state.hand_over([(position, item)], Received(float(position), float(position)))
        renamed = item._replace(key=item.key._replace(job="two"))
        state.hand_over([(position, renamed)], Received(0.0, 0.0))
        most = max(most, waiting_bytes(job.cursor for job in state.jobs()))
    assert 30_000 < most <= 60_000
    assert {"one", "two"} == set(folded), "over all jobs together"
    for job in state.jobs():
        state.fold(job, 0.0)
    assert [len(job.live.current.steps.history) for job in state.jobs()] == [100, 100]


def test_what_waits_for_a_job_in_use_is_given_back_and_read_from_the_log(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_PENDING_BYTES", 60_000)
    run = run_segments(100)
    service.receive(body(run[:1]))
    entry = service.state.get(JOB)
    assert entry is not None
    with entry.lock:
        # As an evaluation holds it: requests neither wait for it nor pile up.
        sending = [
            threading.Thread(target=service.receive, args=(body([segment]),)) for segment in run
        ]
        for thread in sending:
            thread.start()
        for thread in sending:
            thread.join()
        assert entry.cursor.waiting_bytes <= 60_000 and entry.cursor.drops > 0
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].tolist() == [4] * 100


def test_an_evaluation_sees_what_other_jobs_received(service: Service, folded: list[str]) -> None:
    service.receive(body([*run_segments(10, job="one"), *run_segments(10, job="two")]))
    service.evaluate()
    assert sorted(folded) == ["one", "two"]
