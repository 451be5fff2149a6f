"""An evaluation keeps nobody waiting; requests at the same time are applied in the log's order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.live import LiveState
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Lease
from stepwatch.collector.web.api import make_api
from tests.collector.client import Client
from tests.collector.histories import History, differences
from tests.collector.made import JOB, HandClock, body, run_segments

RUN = run_segments(60)
PATIENCE = 60.0
"""Seconds after which a test that waits has failed; it never takes so long."""


@contextmanager
def evaluation_that_lasts(service: Service, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """While this is held, an evaluation of `JOB` is under way on another thread."""
    began, end = threading.Event(), threading.Event()
    evaluate = Evaluator.evaluate

    def slow(self: Evaluator, job: LiveJob, lease: Lease | None) -> Verdicts | None:
        if job.name == JOB:
            began.set()
            assert end.wait(PATIENCE)
        return evaluate(self, job, lease)

    patch.setattr(Evaluator, "evaluate", slow)
    thread = threading.Thread(target=service.evaluate)
    thread.start()
    try:
        assert began.wait(PATIENCE)
        yield
    finally:
        end.set()
        thread.join(PATIENCE)


def test_an_evaluation_keeps_neither_requests_nor_readers_waiting(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(make_api(service))
    service.receive(body([*RUN[:4], *run_segments(10, job="other")]))
    paths = (f"/v1/jobs/{JOB}", f"/v1/jobs/{JOB}/heatmap", "/v1/jobs", "/metrics")
    answers_before = {path: client.get(path).text for path in paths}
    with evaluation_that_lasts(service, monkeypatch):
        assert client.post("/v1/segments", body(RUN[4:])).status_code == 200
        during = {path: client.get(path).text for path in paths}
        other_answer = client.get("/v1/jobs/other/collectives")
        assert other_answer.status_code == 200, "never asked for before"
    assert (
        during[paths[0]] == answers_before[paths[0]]
        and during[paths[1]] == answers_before[paths[1]]
    )
    assert client.get(paths[0]).json()["step"] == 59


def test_an_answer_that_is_polled_is_made_again_by_each_evaluation(
    service: Service, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(make_api(service))
    service.receive(body(RUN[:4]))
    client.get(f"/v1/jobs/{JOB}")
    clock.advance(2.0)
    first = client.get(f"/v1/jobs/{JOB}").json()
    service.receive(body(RUN[4:]))
    clock.advance(2.0)
    service.evaluate()
    clock.advance(2.0)
    with evaluation_that_lasts(service, monkeypatch):
        document = client.get(f"/v1/jobs/{JOB}").json()
    assert (document["step"], document["as_of"] - first["as_of"]) == (59, pytest.approx(2.0))


def test_the_moment_of_an_answer_is_told(service: Service, clock: HandClock) -> None:
    client = Client(make_api(service))
    service.receive(body(RUN))
    for path in (f"/v1/jobs/{JOB}", f"/v1/jobs/{JOB}/heatmap", f"/v1/jobs/{JOB}/collectives"):
        assert client.get(path).json()["as_of"] == clock.wall
    assert client.get("/v1/jobs").json()["jobs"][0]["as_of"] == clock.wall


def test_what_was_stored_and_not_handed_over_is_applied_by_the_next_evaluation(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.receive(body(RUN[:2]))

    def dies(*_: object) -> set[str]:
        raise SystemExit("the thread ends between commit and hand-over")

    with monkeypatch.context() as patch:
        patch.setattr(LiveState, "hand_over", dies)
        with pytest.raises(SystemExit):
            service.receive(body(RUN[2:4]))
    service.receive(body(RUN[4:]))
    job_state = service.job(JOB)
    assert job_state is not None and len(job_state[0].current.steps.history) == 10, (
        "it waits in a gap"
    )
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    assert job_state[0].current.steps.history.rows["reported"].tolist() == [4] * 60


def test_requests_at_the_same_time_are_applied_in_the_order_of_the_log(
    store: Store, clock: HandClock
) -> None:
    live = Service(store, clock)
    sent = [item for item, _ in History(3).segments(80)]
    with ThreadPoolExecutor(8) as senders:
        answers = list(senders.map(lambda item: live.receive(body([item])), [*sent, *sent[::3]]))
    verdicts = [verdict.verdict for answer in answers for verdict in answer]
    assert verdicts.count("accepted") == len(sent) == store.position(JOB)
    restored = Service(store, clock)
    for service in (live, restored):  # an evaluation drops records that are over
        service.evaluate()
    live_state, restored_state = live.job(JOB), restored.job(JOB)
    assert live_state is not None and restored_state is not None
    assert differences(live_state[0], restored_state[0]) == []
