"""A job that cannot be evaluated is quarantined by name and reason; every other job goes on."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.registry import discover
from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.runtime.evaluation.evaluator import Evaluator
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Lease
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals import names
from stepwatch.signals.names import FindingKind
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows
from tests.collector.client import Client
from tests.collector.exported import metric
from tests.collector.gathered import gathering_run
from tests.collector.made import JOB, HandClock, body, run_segments

BAD = "bad-job"
ERRORS = [
    ValueError("operands could not be broadcast"),
    IndexError("index 4 is out of bounds"),
    KeyError("node-7"),
    OverflowError("int too large to convert"),
    ZeroDivisionError("division by zero"),
    FloatingPointError("invalid value"),
    MemoryError("Unable to allocate 8 EiB"),
    TypeError("unsupported operand"),
    AttributeError("no attribute 'step'"),
    AssertionError("rows are sorted"),
    RecursionError("maximum recursion depth exceeded"),
]


def break_folding(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the records of `BAD` raise once a rank has made a step."""
    fold = LiveJob.fold

    def broken(self: LiveJob) -> None:
        fold(self)
        if self.name == BAD and len(self.current.steps.history):
            raise error

    patch.setattr(LiveJob, "fold", broken)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_job_whose_records_cannot_be_folded_stops_no_other(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    break_folding(monkeypatch, error)
    bad, good = run_segments(20, job=BAD), run_segments(20)
    verdicts = service.receive(body([bad[0], good[0], bad[1], good[1], *bad[2:], *good[2:]]))
    assert {item.verdict for item in verdicts} == {"accepted"}
    service.evaluate()
    assert service.job(BAD) is None
    job_state = service.job(JOB)
    assert job_state is not None and len(job_state[0].current.steps.history) == 20
    assert type(error).__name__ in service.withheld()[BAD].reason
    assert metric(service, names.COLLECTOR_JOBS_QUARANTINED) == 1.0
    assert store.payload_bytes(BAD)[0] == len(bad), "its records go on being stored"


def test_the_service_starts_over_a_store_with_such_a_job(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Service(store, clock).receive(body([*run_segments(20, job=BAD), *run_segments(20)]))
    with monkeypatch.context() as patch:
        break_folding(patch, IndexError("index 9 is out of bounds"))
        started = Service(store, clock)
        started.evaluate()
        assert started.job(BAD) is None and started.job(JOB) is not None
        assert "index 9" in started.withheld()[BAD].reason
        more = run_segments(25, job=BAD)[-1]
        assert [item.verdict for item in started.receive(body([more]))] == ["accepted"]
        assert set(started.withheld()) == {BAD}
    repaired = Service(store, clock)
    job_state = repaired.job(BAD)
    assert job_state is not None and len(job_state[0].current.steps.history) == 25, (
        "nothing was lost"
    )
    assert repaired.withheld() == {}


def test_a_job_that_cannot_be_evaluated_stops_no_other(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Evaluator.evaluate

    def broken(self: Evaluator, job: LiveJob, lease: Lease | None) -> Verdicts | None:
        if job.name == BAD:
            raise TypeError("unsupported operand")
        return evaluate(self, job, lease)

    monkeypatch.setattr(Evaluator, "evaluate", broken)
    service.receive(body([*run_segments(20, job=BAD), *run_segments(20)]))
    for _ in range(3):
        service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None and job_state[1].slo_statuses
    assert "unsupported operand" in service.withheld()[BAD].reason
    assert service.evaluation_failures == 1, "it is not tried again"


def test_a_detector_that_raises_stops_no_other_and_resolves_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had found stays as it is; the job's document says what is not looked for."""
    run = run_segments(60, excess={(2, "forward"): 0.4}, slow_from=20)
    service.receive(body(run[:8]))
    service.evaluate()
    (incident,) = incidents_of(service)
    assert (incident.kind, incident.state) == ("straggler", "open")
    broken = [
        detector._replace(find=raising) if FindingKind.STRAGGLER in detector.kinds else detector
        for detector in discover()
    ]
    monkeypatch.setattr(service._evaluator, "_detectors", broken)
    for item in [*run[8:], *run_segments(80)[12:]]:
        service.receive(body([item]))
        service.evaluate()
    (incident,) = incidents_of(service)
    assert incident.state == "open" and service.withheld() == {}
    assert service.evaluation_failures == 8
    job_state = service.job(JOB)
    assert job_state is not None and len(job_state[0].current.steps.history) == 80
    document = Client(make_api(service)).get(f"/v1/jobs/{JOB}").json()
    assert document["not_looked_for"] == {"straggler": "IndexError: list index out of range"}


def incidents_of(service: Service) -> list[Incident]:
    job_state = service.job(JOB)
    assert job_state is not None
    return list(job_state[1].incidents.values())


def raising(context: DetectionContext) -> list[Finding]:
    raise IndexError("list index out of range")


def test_whoever_asks_is_told_the_state_and_the_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_folding(monkeypatch, KeyError("node-7"))
    service.receive(body([*run_segments(10, job=BAD), *run_segments(10)]))
    service.evaluate()
    client = Client(make_api(service))
    lines = {line["job"]: line for line in client.get("/v1/jobs").json()["jobs"]}
    assert lines[JOB]["state"] != "quarantined"
    assert lines[BAD].keys() >= lines[JOB].keys()
    assert (lines[BAD]["state"], lines[BAD]["step"]) == ("quarantined", None)
    assert "node-7" in lines[BAD]["reason"]
    document = client.get(f"/v1/jobs/{BAD}").json()
    assert document["state"] == "quarantined" and "node-7" in document["reason"]
    assert document.keys() >= client.get(f"/v1/jobs/{JOB}").json().keys()
    answer = client.get(f"/v1/jobs/{BAD}/heatmap")
    assert answer.status_code == 404 and "quarantined" in answer.json()["error"]


def test_counters_of_a_quarantined_job_are_absent_and_never_lower(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_folding(monkeypatch, KeyError("node-7"))
    service.receive(body(run_segments(10, job=BAD)))
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    assert BAD not in generate_latest(registry).decode()


def test_a_newest_step_without_collectives_is_no_error(service: Service) -> None:
    run = gathering_run()
    for item in run:
        calls = item.tables[Kind.COLLECTIVE]
        without = calls[calls["step"] != calls["step"].max()] if item is run[-1] else calls
        tables: dict[Kind, Rows] = {**item.tables, Kind.COLLECTIVE: without}
        service.receive(body([item._replace(tables=tables)]))
        service.evaluate()
    assert service.withheld() == {}
