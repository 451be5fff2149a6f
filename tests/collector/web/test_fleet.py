"""Fields of the job list, figures of the fleet, search, and answers that are not sent again."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import httpx
import numpy as np
import pytest

from stepwatch.collector.incidents.model import incident_from
from stepwatch.collector.incidents.states import ALERT, INFO, OPEN
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.rates import Rate, RateCard
from stepwatch.collector.slo.asked.site import read_objectives
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.fleet.entry import PACE_POINTS, thinned
from stepwatch.collector.web.job_view import job_line
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent
from tests.collector.client import Client
from tests.collector.made import (
    EPOCH,
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
    with_facts,
)
from tests.collector.nodes.sightings import XID_79, report
from tests.collector.process import Process, running
from tests.collector.web.shown import send, straggling_run

FINISHED = "ended"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A slow job with a saved checkpoint and an owner, a finished one, and a broken node."""
    store = Store.sqlite(tmp_path_factory.mktemp("fleet") / "store.db")
    rates = RateCard("EUR", (Rate(date(2020, 1, 1), 3600.0),))
    clock = HandClock(30.0)
    service = Service(store, clock, objectives=read_objectives()._replace(rates=rates))
    slow = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=40)
    service.receive(body(with_facts(slow, ("owner.project", "llama"))))
    for number, event in enumerate((CheckpointEvent.BEGIN, CheckpointEvent.VERIFIED)):
        service.receive(
            body([segment(50 + number, {Kind.CHECKPOINT: checkpoint_rows(event, range(4), 20)})])
        )
    finish = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4), time_s=12.0)}
    service.receive(body([*run_segments(60, job=FINISHED), segment(99, finish, FINISHED)]))
    service.receive(body([report(29.0, XID_79, node="gpu-7")]))
    for _ in range(3):
        service.evaluate()
    yield Client(make_api(service))
    store.close()


def test_the_list_of_objectives_is_a_part_of_the_job_list(client: Client) -> None:
    lines = client.get("/v1/jobs").json()["jobs"]
    answer = client.get("/v1/slos")
    jobs = {line["job"]: line for line in answer.json()["jobs"]}
    assert [*jobs] == [line["job"] for line in lines]
    for line in lines:
        listed = jobs[line["job"]]
        assert listed["job_class"] == line["job_class"] and line["slos"]
        for slo, whole in zip(listed["slos"], line["slos"], strict=True):
            assert {"state", "budget_remaining"} <= slo.keys()
            for name, value in slo.items():
                is_number = isinstance(value, float)
                assert value == (pytest.approx(whole[name], 1e-3) if is_number else whole[name])
    client.headers = {"if-none-match": answer.headers["etag"]}
    assert client.get("/v1/slos").status_code == 304
    client.headers = {}


def entry(client: Client, job: str) -> dict[str, Any]:
    jobs = client.get("/v1/jobs").json()["jobs"]
    return next(line for line in jobs if line["job"] == job)


def test_an_entry_has_what_a_list_shows(client: Client) -> None:
    line = entry(client, JOB)
    assert line["devices"] == 4 and line["nodes"] == {"count": 1, "first": ["node-0"]}
    assert line["project"] == "llama" and line["job_class"]
    assert len(line["pace"]) <= PACE_POINTS
    assert line["pace"][0] == pytest.approx(0.2) and line["pace"][-1] == pytest.approx(0.4)
    assert 0 < line["goodput"]["today"] < 1 and line["goodput"]["today"] == line["goodput"]["run"]
    seconds = 60 * 0.2 * 4
    assert line["cost_today"] == {"amount": pytest.approx(seconds, rel=0.05), "currency": "EUR"}
    assert line["verified_checkpoint"]["step"] == 20 and line["verified_checkpoint"]["saved_at"]


def test_an_entry_says_how_bad_its_worst_incident_is(client: Client) -> None:
    worst = entry(client, JOB)["worst"]
    assert worst["severity"] == "alert" and worst["throughput_lost_ratio"] == pytest.approx(0.5)
    assert worst["began_at"] == pytest.approx(EPOCH + 40 * 0.2, abs=1.0)


def test_an_alert_is_worse_than_a_costlier_incident_without_one() -> None:
    small = incident_from({"id": "b", "severity": ALERT, "state": OPEN})
    costly = {"severity": INFO, "state": OPEN, "throughput_lost_ratio": 0.04}
    incidents = {"a": incident_from({"id": "a", **costly}), "b": small}
    job = LiveJob(JOB)
    job.attempts[0] = Attempt(0)
    line = job_line(job, Verdicts(incidents=incidents), 0.0)
    assert line["worst"] is not None and line["worst"]["id"] == "b"


def test_what_is_unknown_is_null_with_a_reason(client: Client) -> None:
    line = entry(client, FINISHED)
    unknown = {"step": None, "saved_at": None, "reason": "no checkpoint is known"}
    assert line["verified_checkpoint"] == unknown and line["project"] is None


def test_figures_add_the_jobs_up(client: Client) -> None:
    figures = client.get("/v1/fleet").json()
    assert figures["jobs"]["finished"] == 1 and figures["jobs"]["failed"] == 0
    assert sum(figures["jobs"].values()) == 2
    assert figures["devices"]["known"] == 4
    assert 0 < figures["goodput_today"] < 1 and figures["cost_today"]["amount"] > 90
    assert figures["pages_this_week"] >= 1
    lines = client.get("/v1/jobs").json()["jobs"]
    assert figures["open_incidents"] == sum(line["open_incidents"] for line in lines) >= 1


def test_search_finds_names_and_words(client: Client) -> None:
    found = client.get("/v1/search?q=MADE-by").json()
    assert [job["name"] for job in found["jobs"]] == [JOB]
    assert found["incidents"] and not found["nodes"]
    assert [job["name"] for job in client.get("/v1/search?q=lama").json()["jobs"]] == [JOB]
    node = client.get("/v1/search?q=gpu-7").json()["nodes"][0]
    assert node["name"] == "gpu-7" and node["state"] == "failed"
    identity = found["incidents"][0]["id"]
    assert client.get(f"/v1/search?q={identity}").json()["incidents"][0]["id"] == identity
    assert client.get("/v1/search?q=10%25x").json() == {"jobs": [], "nodes": [], "incidents": []}
    for query in ("", "?q=", "?q=%20", f"?q={'x' * 101}"):
        assert client.get(f"/v1/search{query}").status_code == 400


def test_neighbouring_steps_are_one_point() -> None:
    assert thinned(np.zeros(0)) == []
    assert thinned(np.arange(3.0)) == [0.0, 1.0, 2.0]
    assert thinned(np.arange(64.0)) == [step + 0.5 for step in range(0, 64, 2)]
    assert thinned(np.arange(65.0))[-1] == 63.0 and len(thinned(np.arange(65.0))) == 21


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with running(tmp_path_factory.mktemp("collector")) as process:
        send(process, straggling_run())
        yield process


@pytest.mark.parametrize("path", ["/v1/jobs", f"/v1/jobs/{JOB}", "/static/licenses.txt"])
def test_an_answer_that_the_reader_has_is_not_sent_again(ended: Process, path: str) -> None:
    plain = {"accept-encoding": "identity"}
    for _ in range(20):  # an evaluation may come between two requests
        first = httpx.get(ended.url + path, headers=plain)
        tag = first.headers["etag"]
        second = httpx.get(ended.url + path, headers={**plain, "if-none-match": f'"x", {tag}'})
        if second.status_code == 304:
            break
        time.sleep(0.1)
    assert second.status_code == 304 and not second.content and second.headers["etag"] == tag
    assert httpx.get(ended.url + path, headers={"if-none-match": '"x"'}).status_code == 200


def test_long_answers_are_compressed_for_readers_that_accept_it(ended: Process) -> None:
    with httpx.Client(base_url=ended.url) as http:
        path, accept = f"/v1/jobs/{JOB}", {"accept-encoding": "gzip"}
        with http.stream("GET", path, headers=accept) as answer:
            raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
        assert len(raw) < len(gzip.decompress(raw)) / 2
        plain = http.get(path, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert "content-encoding" not in http.get("/healthz", headers=accept).headers
        with http.stream("GET", "/v1/events?topic=fleet", headers=accept) as stream:
            assert "content-encoding" not in stream.headers
            assert next(stream.iter_raw()).startswith(b"retry: ")


def test_an_answer_does_not_wait_until_its_head_is_acknowledged(ended: Process) -> None:
    """Otherwise each takes 40 ms on a connection that was used before."""
    seconds = []
    with httpx.Client(base_url=ended.url) as http:
        for _ in range(20):
            began = time.monotonic()
            http.get("/healthz")
            seconds.append(time.monotonic() - began)
    assert min(seconds[5:]) < 0.03
