"""The HTTP face: limits, tokens, a store that is gone, and answers that are JSON without NaN."""

from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwatch.collector.ingest import receive
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.access import Tokens
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.intake import segments
from stepwatch.signals.records import Kind
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, run_segments, segment, state_rows, step_rows

READS = ["/v1/jobs", f"/v1/jobs/{JOB}", f"/v1/jobs/{JOB}/heatmap", "/v1/incidents", "/metrics"]


@pytest.fixture
def client(service: Service) -> Client:
    return Client(make_api(service))


def strict(text: str) -> Any:
    """JSON without the NaN and Infinity that Python's reader would let through."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_segments_in_job_out(client: Client, service: Service) -> None:
    answer = client.post("/v1/segments", content=body(run_segments(30)))
    assert [item["verdict"] for item in answer.json()["verdicts"]] == ["accepted"] * 6
    service.evaluate()
    job = strict(client.get(f"/v1/jobs/{JOB}").text)
    assert (job["state"], job["step"], job["world_size"]) == ("running", 29, 4)
    assert [rank["node"] for rank in job["ranks"]] == ["node-0"] * 4
    shares = job["ranks"][2]["phase_share"]
    assert shares["backward"] == pytest.approx(0.4, abs=1e-6)
    heat = strict(client.get(f"/v1/jobs/{JOB}/heatmap?metric=step").text)
    assert heat["seconds"] == [[0.2] * 30] * 4
    assert heat["steps"][-1] == [29, 29]


def test_nothing_known_is_null_and_never_zero(client: Client, service: Service) -> None:
    client.post("/v1/segments", content=body([segment(1, {Kind.STEP: step_rows([0], [0])})]))
    service.evaluate()
    job = strict(client.get(f"/v1/jobs/{JOB}").text)
    assert job["state"] == "unknown"
    assert job["step"] is None and job["loss_last"] is None and job["tokens_per_second"] is None
    assert job["step_seconds"] == {"p50": None, "p95": None, "p99": None}
    assert all(slo["state"] == "unknown" and slo["ratio"] is None for slo in job["slos"])
    assert job["refused_records"] == 1, "a step of a rank nobody announced is refused, aloud"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/jobs/nobody", 404),
        ("/v1/jobs/nobody/heatmap", 404),
        (f"/v1/jobs/{JOB}/heatmap?metric=nonsense", 400),
        ("/v1/incidents/none", 404),
        ("/static/api.py", 404),
        ("/static/..%2fapi.py", 404),
        ("/static/index.html", 404),
        ("/static/.sources", 404),
    ],
)
def test_refusals(client: Client, path: str, status: int) -> None:
    client.post("/v1/segments", content=body(run_segments(5)))
    assert client.get(path).status_code == status


def test_a_body_that_is_too_large_is_refused(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MAX_BODY_BYTES", 1000)
    assert client.post("/v1/segments", content=b"x" * 1001).status_code == 413
    assert client.post("/v1/segments", content=b"x" * 1000).status_code == 200
    assert receive.MAX_BODY_BYTES == 64 << 20
    assert sum(service.ingest.counts.values()) == 1


def test_a_request_of_more_rows_than_one_may_have_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = run_segments(25)
    monkeypatch.setattr(receive, "MAX_ROWS", sum(segment.row_count for segment in sent) - 1)
    answer = client.post("/v1/segments", content=body(sent))
    assert answer.status_code == 413 and "rows at once" in answer.json()["error"]
    for half in (sent[:3], sent[3:]):  # as an agent does then
        answer = client.post("/v1/segments", content=body(half))
        assert [verdict["verdict"] for verdict in answer.json()["verdicts"]] == ["accepted"] * len(
            half
        )


def test_a_store_that_is_gone_is_503_everywhere(client: Client, tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "store.db")
    database.execute("alter table segment rename to away")
    database.execute("alter table incident rename to gone")
    database.commit()
    database.close()
    posted = client.post("/v1/segments", content=body(run_segments(5)))
    assert posted.status_code == 503 and "verdicts" not in posted.json()
    assert client.get("/v1/incidents").status_code == 503
    assert client.get("/healthz").status_code == 200


def test_a_collector_whose_store_does_not_answer_is_not_ready(
    service: Service, client: Client
) -> None:
    service.receive(body(run_segments(5)))
    service.evaluate()
    assert client.get("/readyz").status_code == 200
    database = sqlite3.connect(service.store.engine.url.database or "")
    database.execute("ALTER TABLE job RENAME TO gone")
    database.commit()
    service.evaluate()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.text) == (503, "the store does not answer\n")
    database.execute("ALTER TABLE gone RENAME TO job")
    database.commit()
    database.close()
    service.evaluate()
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    "authorization", [None, "Bearer", "Bearer secret2", "Bearer secre", "secret"]
)
def test_data_needs_the_token(service: Service, authorization: str | None) -> None:
    client = Client(make_api(service, lambda: Tokens.single("secret")))
    client.headers.update({"authorization": authorization} if authorization else {})
    for path in READS:
        assert client.get(path).status_code == 401, path
    assert client.post("/v1/segments", content=b"").status_code == 401
    for path in ("/", f"/jobs/{JOB}", "/healthz", "/readyz"):
        assert client.get(path).status_code == 200, path
        assert JOB not in client.get(path).text
    client.headers["authorization"] = "Bearer secret"
    assert client.get("/v1/jobs").status_code == 200


def test_pages_may_load_nothing_from_elsewhere(client: Client) -> None:
    for path in ("/", f"/jobs/{JOB}", "/incidents/x", "/nodes", "/runbooks/TrainingHang"):
        policy = client.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'self'")
        assert "://" not in client.get(path).text.replace("http://www.w3.org/2000/svg", "")


def test_reading_while_segments_pour_in_never_fails(service: Service, clock: HandClock) -> None:
    """Jobs, ranks and attempts appear while they are being read."""
    stop = threading.Event()

    def pour() -> None:
        for count in range(10_000):
            if stop.is_set():
                return
            world = 2 + count % 200
            tables = {Kind.RANK_STATE: state_rows(range(world), world, 1.0)}
            service.receive(body([segment(count, tables, f"job-{count % 50}", count % 7)]))

    client = Client(make_api(service))
    service.receive(body(run_segments(5)))
    poured = threading.Thread(target=pour)
    poured.start()
    try:
        statuses = {client.get(path).status_code for _ in range(3) for path in READS}
    finally:
        stop.set()
        poured.join()
    assert statuses == {200}
