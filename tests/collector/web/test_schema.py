"""Answers of a collector have the keys and types that its OpenAPI document says, and no others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, NamedTuple

import httpx
import pytest
from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from typing_extensions import is_typeddict

from stepwatch import runbooks
from stepwatch.collector.analysis import pipeline_stages, what_if
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.ingest.receive import Verdict
from stepwatch.collector.job_states import QUARANTINED
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.rates import Price, Rate, RateCard
from stepwatch.collector.slo.asked.site import read_objectives
from stepwatch.collector.slo.over_run.sli import Cost
from stepwatch.collector.state import collective_timing
from stepwatch.collector.state.holding.unread import Unread
from stepwatch.collector.state.live import Withheld
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.collector.state.trackers.communication import microbatch_timeline
from stepwatch.collector.store import Store
from stepwatch.collector.store.accounts import Generation
from stepwatch.collector.store.profiles import Trace, Wanted
from stepwatch.collector.store.response import Note, Silence
from stepwatch.collector.web import documents, withheld_view
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.openapi import field_docs
from stepwatch.collector.web.openapi.document import api_routes, openapi
from stepwatch.collector.web.openapi.operations import OPERATIONS, Binary
from stepwatch.collector.web.schema import (
    breakdown,
    common,
    incident,
    job,
    profiles,
    slo,
)
from stepwatch.collector.web.schema.job import JobAnswer, JobLineAnswer
from stepwatch.signals.profiles import NodeRequest
from stepwatch.signals.records import Kind, LifecycleEvent, Link
from stepwatch.signals.wire import Segment
from tests.collector.client import Client
from tests.collector.gathered import gathering_run
from tests.collector.histories import History
from tests.collector.made import (
    EPOCH,
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    step_rows,
    with_facts,
)
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, report
from tests.collector.process import Process
from tests.waiting import until

HISTORIES = 12
"""Number of random histories: together they have every kind of record."""


class Asked(NamedTuple):
    """A request and its answer."""

    path: str
    address: str
    answer: bytes


@pytest.fixture(scope="module", autouse=True)
def no_other_keys() -> None:
    """The document allows further keys, for later versions; the tests allow none."""
    for kind in field_docs.kinds().values():
        kind.__pydantic_config__ = {"extra": "forbid"}


def problems(kind: Any, answers: Iterable[Asked]) -> list[str]:
    """Return what answers have that the type lacks, and the other way round."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    lines = []
    for asked in answers:
        try:
            adapter.validate_json(asked.answer, strict=True)
        except ValidationError as error:
            lines += [
                f"{asked.address}: {'.'.join(map(str, one['loc']))}: {one['msg']}"
                for one in error.errors()
            ]
    return sorted({*lines})[:20]


def as_job(segments: Iterable[Segment], job: str) -> list[Segment]:
    return [item._replace(key=item.key._replace(job=job)) for item in segments]


@pytest.fixture(scope="module")
def client(app: Starlette) -> Client:
    return Client(app)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starlette]:
    """Over jobs of every kind: slow, ended, without a step, with unknown ranks, random ones."""
    store = Store.sqlite(tmp_path_factory.mktemp("schema") / "store.db")
    rates = RateCard("EUR", (Rate(date(2020, 1, 1), 2.5),))
    clock = HandClock(30.0)
    service = Service(store, clock, objectives=read_objectives()._replace(rates=rates))
    straggling = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=40)
    service.receive(body(with_facts(straggling, ("config.lr", "1e-3"), ("owner.team", "ada"))))
    finish = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4), time_s=12.0)}
    service.receive(body([*run_segments(60, job="ended"), segment(1000, finish, "ended")]))
    service.receive(body(as_job(gathering_run(), "gathering")))
    service.receive(body([segment(1, {Kind.STEP: step_rows([0], [0])}, "unknown-rank")]))
    start = lifecycle_rows(LifecycleEvent.START, range(4), 4)
    service.receive(body([segment(1, {Kind.LIFECYCLE: start}, "no-step")]))
    for name, fact in (("gpu-1", XID_79), ("gpu-2", XID_79), ("gpu-3", DISK_SLOW)):
        service.receive(body([report(29.0, fact, node=name)]))
    for seed in range(HISTORIES):
        sent = [item for item, _ in History(seed).segments(40)]
        service.receive(body(as_job(sent, f"history-{seed}")))
    for _ in range(8):
        service.evaluate()
        clock.advance(10.0)
    service.evaluate()
    yield make_api(service, runbook=runbooks.render)
    store.close()


@pytest.fixture(scope="module")
def answers(client: Client) -> list[Asked]:
    """Every GET route, for every job, node and incident that there are, after some changes."""
    incidents = client.get("/v1/incidents").json()["incidents"]
    for event in ("acknowledged", "assigned", "comment"):
        note = json.dumps({"event": event, "by": "ada", "text": "mine"}).encode()
        client.post(f"/v1/incidents/{incidents[0]['id']}/notes", note)
    silence = {"job": JOB, "why": "planned", "by": "ada", "seconds": 600}
    client.post("/v1/silences", json.dumps(silence).encode())
    names = {
        "{job}": [line["job"] for line in client.get("/v1/jobs").json()["jobs"]],
        "{id}": [item["id"] for item in incidents],
        "{node}": [node["node"] for node in client.get("/v1/nodes").json()["nodes"]],
        "{name}": sorted({item["runbook"] for item in incidents}),
    }
    queries = {"/v1/report": f"?from={EPOCH - 86_400}&until={EPOCH + 2 * 86_400}"}
    queries["/v1/search"] = "?q=a"
    queries["/v1/sweeps"] = f"?match={JOB[:3]}"
    asked = []
    for operation in OPERATIONS:
        if operation.method == "GET" and not isinstance(operation.answer, Binary):
            for path in _filled(operation.path, names):
                address = path + queries.get(path, "")
                asked.append(Asked(operation.path, address, client.get(address).content))
    return asked


def _filled(path: str, names: dict[str, list[str]]) -> list[str]:
    for placeholder, values in names.items():
        if placeholder in path:
            return [path.replace(placeholder, value) for value in values]
    return [path]


@pytest.mark.parametrize(
    "path", [item.path for item in OPERATIONS if item.method == "GET" and is_typeddict(item.answer)]
)
def test_answers_have_the_documented_keys(path: str, answers: list[Asked]) -> None:
    (kind,) = (item.answer for item in OPERATIONS if (item.method, item.path) == ("GET", path))
    about_path = [asked for asked in answers if asked.path == path]
    assert about_path and problems(kind, about_path) == []


def test_a_job_without_evaluation_and_an_old_answer_have_the_documented_keys(
    answers: list[Asked],
) -> None:
    why = Withheld(QUARANTINED, "ValueError: damaged", EPOCH)
    line = documents.encoded(withheld_view.line("damaged", why))
    assert problems(JobLineAnswer, [Asked("", "withheld line", line)]) == []
    summary = documents.encoded(withheld_view.summary("damaged", why))
    assert problems(JobAnswer, [Asked("", "withheld job", summary)]) == []
    for asked in answers:
        if asked.path == "/v1/jobs/{job}":
            document = json.loads(asked.answer)
            stale = documents.encoded(documents.stale(document, EPOCH, EPOCH + 900.0))
            assert problems(JobAnswer, [Asked("", f"old {asked.address}", stale)]) == []


def test_changes_answer_with_the_documented_keys(client: Client) -> None:
    (newest, *_) = client.get("/v1/incidents").json()["incidents"]
    note = json.dumps({"event": "mitigated", "by": "ada", "text": ""}).encode()
    silence = json.dumps({"node": "gpu-3", "why": "disk", "by": "ada", "seconds": 60}).encode()
    begun = client.post("/v1/silences", silence)
    over = client.delete(f"/v1/silences/{begun.json()['id']}", json.dumps({"by": "ada"}).encode())
    sent = client.post("/v1/segments", body(run_segments(5, job="late")))
    noted = client.post(f"/v1/incidents/{newest['id']}/notes", note)
    for method, path, answer in (
        ("POST", "/v1/incidents/{id}/notes", noted),
        ("POST", "/v1/silences", begun),
        ("DELETE", "/v1/silences/{id}", over),
        ("POST", "/v1/segments", sent),
    ):
        (kind,) = (item.answer for item in OPERATIONS if (item.method, item.path) == (method, path))
        assert answer.status_code == 200, answer.text
        assert problems(kind, [Asked(path, path, answer.content)]) == []


RECORDS = [
    (breakdown.Chunk, microbatch_timeline.Chunk),
    (breakdown.Collective, collective_timing.Collective),
    (breakdown.MicrobatchCell, microbatch_timeline.Cell),
    (breakdown.PipelineStage, pipeline_stages.Stage),
    (breakdown.WhatIf, what_if.WhatIf),
    (common.Money, Cost),
    (incident.Note, Note),
    (incident.Silence, Silence),
    (job.Checkpoint, Checkpoint),
    (job.TrackerRun, Link),
    (job.Unread, Unread),
    (profiles.NodeRequest, NodeRequest),
    (profiles.SegmentVerdict, Verdict),
    (profiles.Trace, Trace),
    (slo.Generation, Generation),
    (slo.Price, Price),
]
"""Documented types, and the records whose fields the views answer with."""


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_a_record_has_the_documented_fields(kind: Any, record: Any) -> None:
    assert set(kind.__annotations__) == set(record._fields)


def test_an_incident_and_a_profile_have_the_documented_fields() -> None:
    documented = incident.Incident.__annotations__
    assert set(documented) == {field.name for field in dataclasses.fields(Incident)}
    assert set(Wanted._fields) <= set(profiles.Profile.__annotations__)


def test_the_document_has_every_route_with_its_parameters_and_no_other(
    app: Starlette, client: Client
) -> None:
    routes = {(method, route.path) for method, route in api_routes(app.routes)}
    assert routes == {(item.method, item.path) for item in OPERATIONS}
    document = client.get("/v1/openapi.json").json()
    assert document == openapi(app.routes)
    documented = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert documented == routes
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], (method, path)
            in_path = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert in_path == {part.strip("{}") for part in path.split("/") if "{" in part}


def test_a_running_collector_answers_as_it_documents(straggling: Process) -> None:
    until("the incident", lambda: incidents_of(straggling))
    (slow, *_) = incidents_of(straggling)
    names = {"{job}": [JOB], "{id}": [slow["id"]], "{node}": ["node-0"]}
    names["{name}"] = [slow["runbook"]]
    for operation in OPERATIONS:
        for path in _filled(operation.path, names):
            is_asked = operation.method == "GET" and is_typeddict(operation.answer)
            if is_asked and not {"nodes", "report", "search", "sweeps"} & {*path.split("/")}:
                answer = httpx.get(straggling.url + path)
                assert answer.status_code == 200, answer.text
                assert problems(operation.answer, [Asked("", path, answer.content)]) == []


def incidents_of(collector: Process) -> list[dict[str, Any]]:
    incidents: list[dict[str, Any]] = httpx.get(f"{collector.url}/v1/incidents").json()["incidents"]
    return incidents
