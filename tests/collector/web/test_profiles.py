"""The API of profiles: who may ask whom, what a trace must be, and what an incident then says."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.profiles import requests
from stepwatch.collector.store.profiles.tables import profile_request
from stepwatch.collector.web.access import Tokens
from stepwatch.collector.web.access.roles import Role
from stepwatch.collector.web.access.tokens import Grant, _digest
from stepwatch.collector.web.api import make_api
from stepwatch.signals.profiles import MAX_TRACE_BYTES, NodeRequest
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.waiting import until

PATH = f"/v1/jobs/{JOB}/profiles"
GZIP = {"content-type": "application/gzip"}
NOT_A_TRACE = gzip.compress(b"{}")
AGENT, OTHER, ADMIN = "agent-of-node-0", "agent-of-node-1", "administrator"


def trace_of(rank: int, product_us: int) -> bytes:
    """Return a trace of three steps, 1 ms and two products of this length each."""
    events = list[dict[str, Any]]()
    begin = 0
    for step in range(100, 103):
        length = 1000 + 2 * product_us
        events.append(event("user_annotation", f"stepwatch: step {step}", begin, length))
        for number in range(2):
            place = begin + 100 + number * (product_us + 100)
            events.append(event("cpu_op", "aten::mm", place, product_us))
        begin += length
    facts = {"rank": rank, "wall_ns": begin * 1000, "cpu_ns": begin * 1000}
    facts |= {"first": 100, "steps": 3}
    return gzip.compress(json.dumps({"stepwatch": facts, "traceEvents": events}).encode(), mtime=0)


def event(category: str, name: str, begin: int, length: int) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": length, "tid": 1}


@pytest.fixture
def running(service: Service, clock: HandClock) -> Service:
    """A collector with a job of four ranks in two stages, of which rank 2 is slow."""
    for item in run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30):
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    return service


@pytest.fixture
def client(running: Service) -> Client:
    return Client(make_api(running))


def ask(client: Client, **fields: Any) -> Any:
    return client.post(PATH, json.dumps({"rank": 2, **fields}).encode())


def send(client: Client, identity: str, rank: int, trace: bytes, query: str = "") -> Any:
    client.headers |= GZIP
    answer = client.post(f"/v1/profiles/{identity}/traces/{rank}{query}", trace)
    del client.headers["content-type"]
    return answer


def profile(client: Client) -> Any:
    return client.get(PATH).json()["profiles"][0]


def segments_answer(client: Client, sequence: int = 60) -> Any:
    item = run_segments(sequence + 5)[-1]
    client.headers |= {"content-type": "application/octet-stream"}
    answer = client.post("/v1/segments", body([item]))
    del client.headers["content-type"]
    return answer.json()


def test_a_request_names_the_nearest_peer_and_a_step_after_every_flush(client: Client) -> None:
    asked = ask(client, by="ada").json()
    assert (asked["rank"], asked["peer"], asked["steps"]) == (2, 3, 3)
    assert (asked["node"], asked["peer_node"], asked["by"]) == ("node-0", "node-0", "ada")
    # 15 s of steps of 0.4 s after the newest one.
    assert 59 + 38 <= asked["first_step"] <= 59 + 42
    assert (asked["state"], asked["traces"]) == ("asked", [])
    assert profile(client) == asked


def test_the_node_learns_of_the_request_with_its_next_segments(client: Client) -> None:
    asked = ask(client).json()
    (sent,) = segments_answer(client)["profiles"]
    request = NodeRequest.parse(sent)
    assert request is not None and request.id == asked["id"]
    assert (request.job, request.attempt, request.ranks) == (JOB, 0, (2, 3))
    assert (request.first, request.steps) == (asked["first_step"], 3)
    assert 0 < request.seconds <= 600.0


def test_other_nodes_and_empty_requests_learn_nothing(client: Client, store: Store) -> None:
    ask(client)
    with store.engine.begin() as connection:
        connection.execute(profile_request.update().values(node="node-7", peer_node="node-8"))
    assert segments_answer(client)["profiles"] == []
    client.headers |= {"content-type": "application/octet-stream"}
    assert client.post("/v1/segments", b"").json()["profiles"] == []


def test_two_traces_become_a_sentence_in_the_incident(client: Client) -> None:
    (before,) = client.get("/v1/incidents").json()["incidents"]
    assert before["rank"] == 2
    identity = ask(client).json()["id"]
    assert send(client, identity, 2, trace_of(2, 9000)).status_code == 200
    assert profile(client)["state"] == "asked"
    assert send(client, identity, 3, trace_of(3, 3000)).status_code == 200
    until("the comparison", lambda: profile(client)["state"] != "asked")
    compared = profile(client)
    assert (compared["state"], compared["comparison"]["rank"]) == ("compared", 2), compared
    assert "aten::mm" in compared["sentence"]
    (incident,) = client.get("/v1/incidents").json()["incidents"]
    (shown,) = client.get(f"/v1/jobs/{JOB}").json()["incidents"]
    first = compared["first_step"]
    assert (
        incident["evidence"][0]
        == shown["evidence"][0]
        == {
            "name": "profile",
            "value": None,
            "unit": "",
            "against": f"rank 3, steps {first} to {first + 2}",
            "text": compared["sentence"],
        }
    )
    assert incident["evidence"][1:] == before["evidence"]
    answer = client.get(f"/v1/profiles/{identity}/traces/2")
    assert (answer.content, answer.headers["content-type"]) == (
        trace_of(2, 9000),
        GZIP["content-type"],
    )


@pytest.mark.parametrize(
    "trace",
    [NOT_A_TRACE, b"\x1f\x8bjunk", gzip.compress(b"[" * 100_000)],
    ids=("no trace", "junk", "deep"),
)
def test_an_unreadable_trace_fails_the_request(client: Client, trace: bytes) -> None:
    identity = ask(client).json()["id"]
    send(client, identity, 2, trace_of(2, 9000))
    send(client, identity, 3, trace)
    until("the comparison", lambda: profile(client)["state"] != "asked")
    assert profile(client)["state"] == "failed"
    assert "the peer's trace cannot be read" in profile(client)["sentence"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": "2"}, "rank must be a rank"),
        ({"rank": -1}, "rank must be a rank"),
        ({"rank": True}, "rank must be a rank"),
        ({"peer": 10**12}, "peer must be a rank"),
        ({"steps": 0}, "steps must be 1 to 10"),
        ({"steps": 11}, "steps must be 1 to 10"),
        ({"steps": 1.5}, "steps must be 1 to 10"),
        ({"by": 3}, "by must be a text"),
        ({"first": 3}, "there is no key 'first'"),
    ],
)
def test_an_invalid_request_is_refused(
    client: Client, fields: dict[str, Any], message: str
) -> None:
    answer = ask(client, **fields)
    assert answer.status_code == 400 and message in answer.json()["error"]
    assert client.get(PATH).json() == {"profiles": []}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 4}, "there is no rank 4: the job has 4 ranks"),
        ({"peer": 9}, "there is no rank 9"),
        ({"peer": 2}, "cannot be compared with itself"),
    ],
)
def test_ranks_that_cannot_be_profiled_are_refused(
    client: Client, fields: dict[str, Any], message: str
) -> None:
    answer = ask(client, **fields)
    assert answer.status_code == 409 and message in answer.json()["error"]


def test_a_job_without_telemetry_is_not_profiled(client: Client, clock: HandClock) -> None:
    clock.advance(3600.0)
    answer = ask(client)
    assert (
        answer.status_code == 409 and "is unknown: only ranks that make" in answer.json()["error"]
    )
    assert client.post("/v1/jobs/none/profiles", b'{"rank": 0}').status_code == 404


def test_a_second_request_waits_for_the_first(client: Client) -> None:
    ask(client)
    answer = ask(client)
    assert answer.status_code == 409 and "in progress" in answer.json()["error"]


def test_a_trace_is_taken_once_from_its_ranks_alone(client: Client) -> None:
    identity = ask(client).json()["id"]
    assert send(client, "nothing", 2, NOT_A_TRACE).status_code == 404
    assert send(client, identity, 0, NOT_A_TRACE).status_code == 409
    assert send(client, identity, 2**40, NOT_A_TRACE).status_code == 409
    assert client.get(f"/v1/profiles/{identity}/traces/x").status_code == 404
    assert send(client, identity, 2, b"PK..").status_code == 415
    assert client.post(f"/v1/profiles/{identity}/traces/2", NOT_A_TRACE).status_code == 415
    assert send(client, identity, 2, NOT_A_TRACE).status_code == 200
    assert send(client, identity, 2, NOT_A_TRACE).status_code == 409
    assert [trace["rank"] for trace in profile(client)["traces"]] == [2]


def test_a_trace_that_is_too_large_is_refused(client: Client) -> None:
    identity = ask(client).json()["id"]
    answer = send(client, identity, 2, b"\x1f\x8b" + bytes(MAX_TRACE_BYTES))
    assert answer.status_code == 413
    assert profile(client)["traces"] == []


def test_an_expired_request_takes_no_trace(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = ask(client).json()["id"]
    monkeypatch.setattr(requests, "_EXPIRY_NS", 1)
    time.sleep(0.01)
    answer = send(client, identity, 2, NOT_A_TRACE)
    assert answer.status_code == 409 and "closed" in answer.json()["error"]
    assert profile(client)["state"] == "expired"
    assert segments_answer(client)["profiles"] == []


def test_a_reason_ends_the_request_without_control_characters(client: Client) -> None:
    identity = ask(client).json()["id"]
    answer = send(client, identity, 2, b"", "?reason=it+ended%C2%9B" + "x" * 500)
    assert answer.status_code == 200, answer.text
    failed = profile(client)
    assert failed["state"] == "failed"
    assert failed["sentence"].startswith("rank 2: it ended\ufffdxxx")
    assert len(failed["traces"][0]["reason"]) == 200


def test_roles_and_nodes_are_told_apart(running: Service) -> None:
    grants = [
        Grant(_digest(AGENT.encode()), frozenset({Role.INGEST}), "node-0"),
        Grant(_digest(OTHER.encode()), frozenset({Role.INGEST}), "node-1"),
        Grant(_digest(ADMIN.encode()), frozenset({Role.ADMIN})),
    ]
    client = Client(make_api(running, lambda: Tokens(grants)))

    def use(token: str) -> None:
        client.headers["authorization"] = f"Bearer {token}"

    use(AGENT)
    assert ask(client).status_code == 403
    assert client.get(PATH).status_code == 403
    use(ADMIN)
    identity = ask(client).json()["id"]
    assert send(client, identity, 2, NOT_A_TRACE).status_code == 403
    use(OTHER)
    refused = send(client, identity, 2, NOT_A_TRACE)
    assert refused.status_code == 403 and "does not run rank 2" in refused.json()["error"]
    use(AGENT)
    assert send(client, identity, 2, NOT_A_TRACE).status_code == 200
    assert client.get(f"/v1/profiles/{identity}/traces/2").status_code == 403
    use(ADMIN)
    assert client.get(f"/v1/profiles/{identity}/traces/2").content == NOT_A_TRACE
