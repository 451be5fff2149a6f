"""The API of silences and notes: what is invalid is refused, what is written is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store.response.silences import LONGEST_SECONDS
from stepwatch.collector.web.access import Tokens
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.response.asked import MAX_BYTES
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, run_segments

SILENCE = {"job": "llama", "why": "new firmware", "by": "ada", "seconds": 60}
TOKEN = "s3cret"


@pytest.fixture
def client(service: Service) -> Client:
    return Client(make_api(service))


def sent(document: Any) -> bytes:
    return json.dumps(document).encode()


def test_a_silence_is_begun_shown_and_expired(client: Client) -> None:
    silence = client.post("/v1/silences", sent(SILENCE)).json()
    assert client.get("/v1/silences").json() == {"silences": [silence]}
    path = f"/v1/silences/{silence['id']}"
    ended = client.delete(path, sent({"by": "bob"})).json()
    assert ended["expired_by"] == "bob" and ended["until"] < silence["until"]
    assert client.get("/v1/silences").json() == {"silences": []}
    around = f"from={silence['since'] - 1}&until={silence['since'] + 1}"
    assert client.get(f"/v1/silences?{around}").json() == {"silences": [ended]}
    assert client.delete("/v1/silences/nobody", sent({"by": "bob"})).status_code == 404


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"job": ""}, "name a job, a node or a kind"),
        ({"job": "../etc"}, "is not a name"),
        ({"job": 3}, "job must be a text"),
        ({"kind": "bad-luck"}, "kind must be one of"),
        ({"why": " "}, "why is missing"),
        ({"why": "x" * 301}, "why must be a text of at most 300"),
        ({"by": None}, "by must be a text"),
        ({"seconds": 0}, "a silence lasts from one second to 30 days"),
        ({"seconds": "60"}, "a silence lasts from one second to 30 days"),
        ({"seconds": float("nan")}, "a silence lasts from one second to 30 days"),
        ({"seconds": 10**400}, "a silence lasts from one second to 30 days"),
        ({"seconds": LONGEST_SECONDS + 1}, "a silence lasts from one second to 30 days"),
        ({"until": 60}, "there is no key 'until'"),
        ({"why": "x" * MAX_BYTES}, "send at most"),
    ],
)
def test_an_invalid_silence_is_refused(
    client: Client, change: dict[str, Any], message: str
) -> None:
    answer = client.post("/v1/silences", sent({**SILENCE, **change}))
    assert answer.status_code == 400 and message in answer.json()["error"]
    assert client.get("/v1/silences").json() == {"silences": []}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"[" * 5000, b"\xff"])
def test_what_is_no_object_is_refused(client: Client, data: bytes) -> None:
    for path in ("/v1/silences", "/v1/incidents/x/notes"):
        answer = client.post(path, data)
        assert (answer.status_code, answer.json()) == (400, {"error": "send a JSON object"})


@pytest.mark.parametrize(
    "query", ["from=1", "from=x&until=2", "from=nan&until=2", "from=1&until=1e30"]
)
def test_moments_must_be_ones(client: Client, query: str) -> None:
    answer = client.get(f"/v1/silences?{query}")
    assert answer.status_code == 400 and "Unix seconds" in answer.json()["error"]


def test_control_characters_do_not_reach_a_terminal(client: Client) -> None:
    silence = client.post("/v1/silences", sent({**SILENCE, "why": "a\x1b[2Jb\nc"})).json()
    assert silence["why"] == "a\ufffd[2Jb c"


def test_whoever_has_no_token_changes_nothing(service: Service) -> None:
    client = Client(make_api(service, lambda: Tokens.single(TOKEN)))
    for refused in (
        client.post("/v1/silences", sent(SILENCE)),
        client.get("/v1/silences"),
        client.delete("/v1/silences/x", sent({"by": "ada"})),
        client.post("/v1/incidents/x/notes", sent({"event": "comment", "by": "a", "text": "x"})),
    ):
        assert refused.status_code == 401
    client.headers = {"authorization": f"Bearer {TOKEN}"}
    assert client.post("/v1/silences", sent(SILENCE)).status_code == 200


def test_notes_are_shown_with_the_incident_and_its_job(service: Service, clock: HandClock) -> None:
    client = Client(make_api(service))
    for item in run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30):
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    (incident,) = client.get("/v1/incidents").json()["incidents"]
    assert incident["response"] == {
        "acknowledged": None, "mitigated": None, "owner": "", "notes": [], "silenced": None
    }  # fmt: skip
    path = f"/v1/incidents/{incident['id']}"
    noted = client.post(f"{path}/notes", sent({"event": "acknowledged", "by": "ada"})).json()
    assert noted["response"]["acknowledged"]["by"] == "ada" and noted["state"] == "open"
    (listed,) = client.get("/v1/incidents").json()["incidents"]
    (shown,) = client.get(f"/v1/jobs/{JOB}").json()["incidents"]
    assert listed["response"] == shown["response"] == noted["response"]
    assert client.get(path).json() == noted
    on_node = [client.get(f"/v1/incidents?node={name}").json() for name in ("node-0", "gpu-9")]
    assert [len(document["incidents"]) for document in on_node] == [1, 0]
    tag = client.get(path).headers["etag"]
    client.headers = {"if-none-match": tag}
    assert client.get(path).status_code == 304, "a page asks again every few seconds"
    client.headers = {}
    for wrong in ({"event": "resolved", "by": "ada"}, {"event": "assigned", "by": "ada"}, {}):
        assert client.post(f"{path}/notes", sent(wrong)).status_code == 400
    note = sent({"event": "comment", "by": "ada", "text": "x"})
    assert client.post("/v1/incidents/nobody/notes", note).status_code == 404


def test_an_open_incident_says_what_silences_it(service: Service, clock: HandClock) -> None:
    client = Client(make_api(service))
    for item in run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30):
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    wanted = {"job": JOB, "why": "new firmware", "by": "ada", "seconds": 3600}
    silence = client.post("/v1/silences", sent(wanted)).json()
    (listed,) = client.get("/v1/incidents").json()["incidents"]
    (shown,) = client.get(f"/v1/jobs/{JOB}").json()["incidents"]
    assert listed["response"]["silenced"] == shown["response"]["silenced"] == silence
    client.delete(f"/v1/silences/{silence['id']}", sent({"by": "bob"}))
    (listed,) = client.get("/v1/incidents").json()["incidents"]
    assert listed["response"]["silenced"] is None


def test_a_job_is_shown_while_the_store_does_not_answer(service: Service) -> None:
    """What people said of it is not known then: there is no `response`."""
    client = Client(make_api(service))
    service.receive(body(run_segments(10)))
    service.evaluate()
    service.store.notes.add("x", JOB, "comment", "ada", "text")
    assert client.get(f"/v1/jobs/{JOB}").status_code == 200

    def unavailable(*_: object) -> None:
        raise sa.exc.OperationalError("select", {}, OSError("nobody answers"))

    sa.event.listen(service.store.engine, "before_cursor_execute", unavailable)
    try:
        answer = client.get(f"/v1/jobs/{JOB}")
    finally:
        sa.event.remove(service.store.engine, "before_cursor_execute", unavailable)
    assert answer.status_code == 200 and answer.json()["job"] == JOB
