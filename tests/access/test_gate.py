"""The gate: refused clients, the answers, and the counters; over the real API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.access import Role, TokenFiles
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, lifecycle_rows, run_segments, segment

from .certificates import secret

AGENT, READER, ADMIN = "the-token-of-agents", "the-token-of-readers", "the-token-of-admins"
BOUND, ELSEWHERE = "the-token-of-node-0", "the-token-of-node-9"
SILENCE = {"job": "job", "reason": "planned work", "by": "ada", "seconds": 3600}


@pytest.fixture
def clock() -> HandClock:
    return HandClock(60.0)


@pytest.fixture
def service(tmp_path: Path, clock: HandClock) -> Iterator[Service]:
    store = Store.sqlite(tmp_path / "store.db")
    yield Service(store, clock)
    store.close()


@pytest.fixture
def client(tmp_path: Path, service: Service) -> Client:
    ingest = secret(tmp_path / "ingest", f"{AGENT}\nnode-0 {BOUND}\nnode-9 {ELSEWHERE}\n")
    token_files = TokenFiles(
        [
            (ingest, frozenset({Role.INGEST})),
            (secret(tmp_path / "read", READER), frozenset({Role.READ})),
            (secret(tmp_path / "admin", ADMIN), frozenset({Role.ADMIN})),
        ]
    )
    return Client(make_api(service, lambda: token_files.tokens))


def presents(client: Client, token: str) -> Client:
    client.headers["authorization"] = token and f"Bearer {token}"
    return client


SEGMENTS = body(run_segments(5))


@pytest.mark.parametrize(
    ("token", "statuses"),
    [
        # segments, incidents, jobs, /metrics, a silence, a note
        ("", [401, 401, 401, 401, 401, 401]),
        ("the-token-of-nobody", [401, 401, 401, 401, 401, 401]),
        (AGENT, [200, 403, 403, 403, 403, 403]),
        (READER, [403, 200, 200, 200, 403, 403]),
        (ADMIN, [403, 200, 200, 200, 400, 400]),
    ],
)
def test_each_role_may_what_it_is_for(client: Client, token: str, statuses: list[int]) -> None:
    presents(client, token)
    answers = [
        client.post("/v1/segments", SEGMENTS),
        client.get("/v1/incidents"),
        client.get("/v1/jobs"),
        client.get("/metrics"),
        client.post("/v1/silences", b"{}"),
        client.post("/v1/incidents/x/notes", b"{}"),
    ]
    assert [answer.status_code for answer in answers] == statuses
    for answer in answers:
        if answer.status_code in (401, 403):
            error = answer.json()["error"]
            assert "token" in error and "\n" not in error
            assert not token or token not in error
        assert (answer.status_code == 401) == ("www-authenticate" in answer.headers)


def test_a_refusal_says_what_to_do(client: Client) -> None:
    assert "--token-file" in client.get("/v1/jobs").json()["error"]
    error = presents(client, READER).post("/v1/segments", SEGMENTS).json()["error"]
    assert error == (
        "this token is for read, and may not do this: use one of the collector's "
        "--ingest-token-file"
    )


@pytest.mark.parametrize("header", ["bearer {}", "BEARER {}", "Bearer  {}"])
def test_the_scheme_is_read_as_http_wants_it(client: Client, header: str) -> None:
    client.headers["authorization"] = header.format(READER)
    assert client.get("/v1/jobs").status_code == 200


@pytest.mark.parametrize("header", ["{}", "Basic {}", "Bearer", "Bearer x{}", "Bearer {}x"])
def test_nothing_else_is_a_token(client: Client, header: str) -> None:
    client.headers["authorization"] = header.format(READER)
    assert client.get("/v1/jobs").status_code == 401


def test_a_token_of_a_node_sends_for_no_other(client: Client) -> None:
    assert {segment.key.node for segment in run_segments(5)} == {"node-0"}
    presents(client, ELSEWHERE)
    refused = client.post("/v1/segments", SEGMENTS)
    assert refused.status_code == 403
    assert "bound to node node-9, and a segment is of 'node-0'" in refused.json()["error"]
    assert client.post("/v1/segments", b"what is not a segment").status_code == 403
    assert client.post("/v1/segments", b"").status_code == 200, "a greeting names no node"
    presents(client, BOUND)
    verdicts = client.post("/v1/segments", SEGMENTS).json()["verdicts"]
    assert {verdict["verdict"] for verdict in verdicts} == {"accepted"}, "none was stored before"
    text = presents(client, READER).get("/metrics").text
    assert 'stepwatch_collector_refused_requests_total{reason="node"} 2.0' in text


def test_a_token_for_sending_counts_the_incidents_of_its_own_jobs_only(
    client: Client, service: Service, clock: HandClock
) -> None:
    failed = lifecycle_rows(LifecycleEvent.FAILURE, range(4), time_s=4.0)
    sent = [*run_segments(20), segment(90, {Kind.LIFECYCLE: failed})]
    assert presents(client, BOUND).post("/v1/segments", body(sent)).status_code == 200
    for _ in range(20):
        clock.advance(1.0)
        service.evaluate()
    (incident,) = presents(client, READER).get("/v1/incidents").json()["incidents"]
    assert incident["kind"] == "rank-failed" and incident["summary"]
    presents(client, ELSEWHERE).post("/v1/segments", body([segment(1, {}, node="node-9")]))
    refused = client.get(f"/v1/incidents?job={JOB}")
    assert refused.status_code == 403
    assert f"bound to node node-9, which runs no rank of {JOB}" in refused.json()["error"]
    for token in (BOUND, AGENT):
        counted = presents(client, token).get(f"/v1/incidents?job={JOB}&state=open")
        assert counted.json() == {"incidents": [{"attempt": 0}]}, token
        assert client.get("/v1/incidents").status_code == 403


def test_refusals_are_counted_by_reason(client: Client) -> None:
    client.get("/v1/jobs")
    presents(client, "the-token-of-nobody").get("/v1/jobs")
    presents(client, AGENT).get("/v1/jobs")
    text = presents(client, READER).get("/metrics").text
    for reason in ("no-token", "unknown-token", "role"):
        name = "stepwatch_collector_refused_requests_total"
        assert f'{name}{{reason="{reason}"}} 1.0' in text, reason
