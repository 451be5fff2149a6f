"""Profiles that the collector requests itself: allowed by class, once per incident, in no hang."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.site import read_objectives
from stepwatch.collector.slo.asked.site_schema import OTHERS
from stepwatch.collector.store import Store
from stepwatch.collector.store.profiles import requests
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.profiles import IncidentProfiles, of_incidents
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.process import Process
from tests.collector.runtime.test_evaluation import Site
from tests.collector.web.test_metrics import families, series
from tests.collector.web.test_profiles import PATH, send, trace_of
from tests.waiting import until

PROFILES = "stepwatch_collector_profiles"
SLOW = {(2, "forward"): 0.9}


@pytest.fixture
def site(store: Store, clock: HandClock) -> Site:
    """A collector with a job of four ranks in two stages, of which rank 2 is slow."""
    made = Site(store, clock)
    made.run(20)
    made.run(8, excess=SLOW)
    assert made.incidents() == [("straggler", "open", 2)]
    return made


def allow(service: Service, *names: str, job_class: str = OTHERS) -> None:
    asked = read_objectives()._replace(classes={}, profiled={job_class: frozenset(names)})
    service.site_objectives.replace(asked)


def requested(service: Service) -> list[tuple[str, int, int]]:
    return [
        (request.state.value, request.wanted.rank, request.wanted.peer)
        for request in service.store.profiles.of_job(JOB)
    ]


def evidence(client: Client) -> dict[str, Any]:
    """The profile in the incident, empty without one."""
    (incident,) = client.get("/v1/incidents").json()["incidents"]
    first: dict[str, Any] = incident["evidence"][0]
    return first if first["name"] == "profile" else {}


def test_an_incident_is_profiled_once_and_shows_what_came_of_it(
    site: Site, clock: HandClock
) -> None:
    service, client = site.service, Client(make_api(site.service))
    allow(service, "straggler")
    profiles = IncidentProfiles(service)
    profiles.request_due()
    (request,) = service.store.profiles.of_job(JOB)
    (incident,) = service.store.incidents.newest(JOB)
    wanted = request.wanted
    assert (wanted.rank, wanted.peer, wanted.steps, wanted.by) == (2, 3, 3, "stepwatch")
    assert wanted.incidents == [incident["id"]]
    assert evidence(client)["text"] == "a profile is requested"
    assert evidence(client)["against"].startswith("rank 3, steps ")
    send(client, request.id, 2, trace_of(2, 9000))
    send(client, request.id, 3, trace_of(3, 3000))
    until("the comparison", lambda: requested(service) == [("compared", 2, 3)])
    assert evidence(client)["text"].startswith("aten::mm 3.0x")
    site.run(30, excess=SLOW)
    profiles.request_due()
    assert requested(service) == [("compared", 2, 3)]


@pytest.mark.parametrize("names", [(), ("data-skew", "launch-bound")])
def test_nothing_is_requested_that_the_site_does_not_name(
    site: Site, names: tuple[str, ...]
) -> None:
    if names:
        allow(site.service, *names)
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == []
    allow(site.service, "straggler", job_class="research")
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == []


def test_a_cause_is_named_as_well_as_a_kind(site: Site) -> None:
    (incident,) = site.service.store.incidents.newest(JOB)
    allow(site.service, incident["cause"])
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == [("asked", 2, 3)]


def test_no_rank_is_profiled_in_a_hang(site: Site) -> None:
    site.run(200, moved_ago=0.1, every=10)
    assert ("hang", "open", 0) in site.incidents()
    allow(site.service, "straggler", "hang")
    profiles = IncidentProfiles(site.service)
    assert list(profiles._due()) == []
    profiles.request_due()
    assert requested(site.service) == []


def test_an_incident_that_opened_long_ago_is_not_profiled(
    site: Site, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(site.service, "straggler")
    monkeypatch.setattr(of_incidents, "OPENED_SECONDS", 60.0)
    site.run(60, excess=SLOW)
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == []


def test_profiled_time_of_a_day_is_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(site.service, "straggler")
    monkeypatch.setattr(of_incidents, "SECONDS_A_DAY", 2.0)  # a step takes 1 s
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == []
    monkeypatch.setattr(of_incidents, "SECONDS_A_DAY", 6.0)
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == [("asked", 2, 3)]


def test_a_peer_with_an_incident_is_no_peer(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(20)
    site.run(10, excess={(2, "forward"): 0.9, (3, "backward"): 0.9})
    ranks = {rank for _, state, rank in site.incidents() if state == "open"}
    assert {2, 3} <= ranks, site.incidents()
    allow(site.service, "straggler")
    IncidentProfiles(site.service).request_due()
    assert requested(site.service) == []


def test_one_profile_is_in_flight_and_the_next_waits(
    site: Site, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(make_api(site.service))
    client.post(PATH, json.dumps({"rank": 0, "peer": 1}).encode())
    allow(site.service, "straggler")
    profiles = IncidentProfiles(site.service)
    profiles.request_due()
    assert requested(site.service) == [("asked", 0, 1)]
    monkeypatch.setattr(requests, "_EXPIRY_NS", 1)
    time.sleep(0.01)
    profiles.request_due()
    assert len(requested(site.service)) == 1, "not before the pause after a refusal"
    clock.advance(of_incidents.RETRY_SECONDS)
    site.run(1, excess=SLOW)
    profiles.request_due()
    assert [rank for _, rank, _ in requested(site.service)] == [2, 0]


def test_an_expired_profile_is_a_failure_in_the_incident(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(site.service, "straggler")
    IncidentProfiles(site.service).request_due()
    monkeypatch.setattr(requests, "_EXPIRY_NS", 1)
    time.sleep(0.01)
    words = evidence(Client(make_api(site.service)))["text"]
    assert words.startswith("failed: no answer came in time")


def test_counts_of_a_day_are_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = IncidentProfiles(site.service)
    profiles.count()
    allow(site.service, "straggler")
    profiles.request_due()
    assert site.service.profiles_of_day is not None
    assert site.service.profiles_of_day.outcomes["asked"] == 0, "not before the counts are old"
    monkeypatch.setattr(of_incidents, "COUNT_SECONDS", 0.0)
    profiles.count()
    exported = series(families(site.service))
    counts = {key[1]: value for key, value in exported.items() if key[0] == PROFILES}
    assert counts == {**dict.fromkeys(requests.OUTCOMES, 0), "asked": 1}
    assert exported["stepwatch_collector_profiled_seconds",] == 0.0


CLASSES = """
classes:
  "*":
    slos: []
    profile_incidents: [straggler]
"""


class Sender:
    """Sends a run whose newest step is always now, in pieces."""

    def __init__(self, collector: Process) -> None:
        self.collector = collector
        self.segments = run_segments(400, excess={(2, "forward"): 0.2}, slow_from=20)
        self.sent = 0

    def send(self, count: int) -> None:
        for item in self.segments[self.sent : self.sent + count]:
            self.sent += 1
            began = time.time_ns() - round(self.sent * NANOSECONDS)
            now = item._replace(clock=ClockPair(0, began))
            assert self.collector.send(body([now])).status_code == 200


@pytest.mark.long(
    "tests/collector/web/test_incident_profiles.py"
    "::test_an_incident_is_profiled_once_and_shows_what_came_of_it",
)
def test_a_killed_collector_does_not_ask_again(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(CLASSES)
    process = Process(tmp_path, options=("--site", str(tmp_path / "site.yaml")))
    sender = Sender(process)

    def profiles() -> Any:
        sender.send(1)
        return httpx.get(process.url + PATH).json()["profiles"]

    try:
        process.start()
        process.wait_ready()
        sender.send(12)
        until("a profile", lambda: len(profiles()) == 1)
        # A request that is over, so that only the incident forbids another one.
        address = f"{process.url}/v1/profiles/{profiles()[0]['id']}/traces/2?reason=it+refused"
        assert httpx.post(address).status_code == 200
        before = profiles()
        assert [profile["state"] for profile in before] == ["failed"]
        process.end()
        process.start()
        process.wait_ready()
        for _ in range(8):
            time.sleep(0.7)
            assert profiles() == before
    finally:
        process.end()
