"""One word for the state of a job, the incident included, wherever the job is shown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from stepwatch.collector.incidents.model import incident_from
from stepwatch.collector.incidents.states import ALERT, INFO
from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, lifecycle_rows, run_segments, segment


def incident(**fields: Any) -> Any:
    return incident_from({"id": "a", "state": "open", "severity": ALERT, **fields})


@pytest.mark.parametrize(
    ("incidents", "state"),
    [
        ([], "running"),
        ([incident(kind="straggler", throughput_lost_ratio=0.5)], "degraded"),
        ([incident(kind="memory-growth", throughput_lost_ratio=None)], "degraded"),
        ([incident(kind="straggler", throughput_lost_ratio=0.01, severity=INFO)], "running"),
        ([incident(kind="hang", throughput_lost_ratio=1.0)], "stalled"),
        ([incident(kind="pause", throughput_lost_ratio=math.nan)] * 2, "degraded"),
        ([incident(kind="telemetry-lost", cause="agent-stale")], "unknown"),
        ([incident(kind="telemetry-lost", cause="node-stale")], "degraded"),
    ],
)
def test_what_is_open_is_in_the_word(incidents: list[Any], state: str) -> None:
    job = LiveJob(JOB)
    for item in run_segments(12):
        job.apply(item, Received(100.0, 100.0))
    assert job_state(job.current, incidents, 100.0) == state
    ended = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, range(4), time_s=9.0)}
    job.apply(segment(90, ended), Received(100.0, 100.0))
    assert job_state(job.current, incidents, 100.0) == "finished"


def test_the_list_the_job_and_its_slos_say_the_same_word(tmp_path: Path) -> None:
    store, clock = Store.sqlite(tmp_path / "running.db"), HandClock(60.0)
    service = Service(store, clock)
    for item in run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30):
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    client = Client(make_api(service))
    documents = [client.get(path).json() for path in (f"/v1/jobs/{JOB}", f"/v1/jobs/{JOB}/slos")]
    documents += client.get("/v1/jobs").json()["jobs"]
    store.close()
    assert {document["state"] for document in documents} == {"degraded"}
