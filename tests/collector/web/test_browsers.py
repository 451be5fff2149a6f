"""A page of another site makes a browser write nothing, and reads nothing."""

from __future__ import annotations

import json

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.access import PublicNames
from stepwatch.collector.web.api import make_api
from stepwatch.signals import wire
from tests.collector.client import Client
from tests.collector.made import JOB, body, run_segments

SILENCE = json.dumps({"job": JOB, "why": "planned", "by": "ada", "seconds": 60}).encode()
ONLY = PublicNames(frozenset({"stepwatch.example"}), only=True)


@pytest.fixture
def client(service: Service) -> Client:
    new_client = Client(make_api(service, public=ONLY))
    new_client.headers["host"] = "127.0.0.1:8480"
    assert new_client.post("/v1/segments", body(run_segments(5))).status_code == 200
    return new_client


def status_of(client: Client, path: str, **headers: str) -> int:
    client.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return client.get(path).status_code


def written(client: Client, **headers: str) -> int:
    client.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return client.post("/v1/silences", SILENCE).status_code


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8480", 200),
        ("[::1]:8480", 200),
        ("10.1.2.3", 200),
        ("localhost:8480", 200),
        ("jobs.localhost:8480", 200),
        ("STEPWATCH.example.", 200),
        ("evil.example:8480", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:8480", 421),
        ("stepwatch.example.evil.example", 421),
        ("::1", 200),
    ],
)
def test_only_names_of_the_collector_are_answered(client: Client, host: str, status: int) -> None:
    for path in ("/v1/jobs", "/metrics", "/", f"/v1/jobs/{JOB}"):
        assert status_of(client, path, host=host) == status, path
    assert written(client, host=host) == status
    assert status_of(client, "/healthz", host=host) == 200, "a load balancer asks by any name"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8480", 200),
        ("https://stepwatch.example", 200),
        ("http://127.0.0.1:3000", 403),
        ("https://127.0.0.1", 403),
        ("http://evil.example", 403),
        ("http://evil.example:8480", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
def test_writes_come_from_its_own_pages(client: Client, origin: str, status: int) -> None:
    assert written(client, origin=origin) == status
    assert client.post("/v1/segments", body(run_segments(5))).status_code == status
    silences = client.get("/v1/silences").json()["silences"]
    assert len(silences) == (status == 200)


@pytest.mark.parametrize(
    ("site", "mode", "read", "write"),
    [
        ("same-origin", "cors", 200, 200),
        ("none", "navigate", 200, 200),
        ("same-site", "cors", 403, 403),
        ("cross-site", "no-cors", 403, 403),
        ("cross-site", "navigate", 200, 403),
    ],
)
def test_what_the_browser_says_of_the_site_counts(
    client: Client, site: str, mode: str, read: int, write: int
) -> None:
    read_status = status_of(client, "/v1/jobs", sec_fetch_site=site, sec_fetch_mode=mode)
    assert (read_status, written(client)) == (read, write)
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_json_is_sent_as_json(client: Client, content_type: str) -> None:
    client.headers["content-type"] = content_type
    assert client.post("/v1/silences", SILENCE).status_code == 415
    assert client.post("/v1/incidents/x/notes", b"{}").status_code == 415
    assert client.delete("/v1/silences/x", b"{}").status_code == 415
    client.headers["content-type"] = "application/json; charset=utf-8"
    assert client.post("/v1/silences", SILENCE).status_code == 200


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (wire.MEDIA_TYPE, 200),
        ("application/octet-stream", 200),
        ("", 200),
        ("text/plain;charset=UTF-8", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/x-www-form-urlencoded", 415),
    ],
)
def test_segments_are_no_form(client: Client, content_type: str, status: int) -> None:
    client.headers["content-type"] = content_type
    assert client.post("/v1/segments", body(run_segments(5))).status_code == status


def test_without_names_of_its_own_any_is_answered(service: Service) -> None:
    client = Client(make_api(service))
    assert status_of(client, "/v1/jobs", host="collector.site.example") == 200
    assert written(client, origin="http://evil.example") == 403


def test_refusals_are_counted(client: Client) -> None:
    assert status_of(client, "/v1/jobs", host="evil.example") == 421
    client.headers["host"] = "127.0.0.1:8480"
    assert written(client, origin="null") == 403
    text = client.get("/metrics").text
    for reason in ("host", "other-site"):
        assert f'stepwatch_collector_refused_requests_total{{reason="{reason}"}} 1.0' in text
