"""Jobs that are only claimed: those that run stay live and evaluated beside them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stepwatch.cli.jobs.status_text import job_text
from stepwatch.collector.job_states import CROWDED_OUT
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state import job as jobs
from stepwatch.collector.state import live
from stepwatch.collector.state.tracker import MAX_WORLD
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment
from tests.collector.client import Client
from tests.collector.made import JOB, HandClock, body, lifecycle_rows, run_segments, segment
from tests.collector.state.claims.test_worlds import forged

OTHER = "other-run"
NUMBERS = itertools.count(1)


def take(service: Service, clock: HandClock, *segments: Segment, source: str = "gpu-1") -> None:
    for item in segments:
        assert [verdict.verdict for verdict in service.receive(body([item]), source)] == [
            "accepted"
        ]
        clock.advance(1.0)
        service.evaluate()
    assert service.evaluation_failures == 0


def flood(service: Service, number: int, source: str = "evil") -> None:
    """A sender claims so many more jobs, each of as many ranks as there may be."""
    for index in range(number):
        for world in (MAX_WORLD, 64):
            forged_segment = forged(world, f"forged-{source}-{index}")
            key = forged_segment.key._replace(sequence=next(NUMBERS))
            service.receive(body([forged_segment._replace(key=key)]), source)


def states(service: Service) -> dict[str, str]:
    """The state of each job, as the list of jobs says it."""
    listed = Client(make_api(service)).get("/v1/jobs").json()["jobs"]
    return {entry["job"]: entry["state"] for entry in listed}


def test_jobs_that_run_stay_while_others_are_claimed(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for six jobs, two run, one of them with a rank that fails during the flood."""
    monkeypatch.setattr(live, "MAX_JOBS", 6)
    monkeypatch.setattr(jobs, "PROVEN_SECONDS", 10.0)
    service = Service(store, clock)
    run, other_run = run_segments(200), run_segments(250, job=OTHER)
    for own_segment, other_segment in zip(run[:12], other_run[:12], strict=True):
        take(service, clock, own_segment, other_segment)
    for number in range(12, 30):
        flood(service, 20)
        take(service, clock, run[number], other_run[number])
        assert {states(service).get(name) for name in (JOB, OTHER)} == {"running"}
    failed = lifecycle_rows(LifecycleEvent.FAILURE, range(4), time_s=30.0)
    take(service, clock, segment(900, {Kind.LIFECYCLE: failed}))
    for item in other_run[30:]:
        flood(service, 20)
        take(service, clock, item)
    opened = store.incidents.newest(JOB, "open")
    assert [incident["kind"] for incident in opened] == ["rank-failed"]
    assert store.incidents.newest(OTHER, "open") == []


def test_a_job_that_begins_during_a_flood_is_evaluated(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_JOBS", 8)
    service = Service(store, clock)
    for item in run_segments(40):
        flood(service, 12)
        take(service, clock, item)
        assert states(service).get(JOB) == "running"


def test_a_newcomer_that_left_twice_waits_and_says_why(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_JOBS", 4)
    service = Service(store, clock)
    for item in run_segments(60):
        flood(service, 9)
        take(service, clock, item)
    (name, *_) = [name for name, state in states(service).items() if state == CROWDED_OUT]
    assert name.startswith("forged-")
    summary = Client(make_api(service)).get(f"/v1/jobs/{name}").json()
    assert "more jobs began than there is room for" in summary["reason"]
    clock.advance(live.AGAIN_SECONDS + 1)
    assert states(service).get(name) != CROWDED_OUT


def test_a_job_of_which_too_few_ranks_are_seen_says_so(service: Service) -> None:
    service.receive(body([forged()]))
    service.evaluate()
    client = Client(make_api(service))
    reason = "1 of 131,072 ranks reported so far; it is evaluated once 8,192 did"
    (line,) = client.get("/v1/jobs").json()["jobs"]
    assert (line["state"], line["reason"]) == ("unknown", reason)
    assert reason in " ".join(job_text(client.get(f"/v1/jobs/{JOB}").json(), None, 80).split())


def test_a_crowd_of_real_jobs_comes_back_from_a_restart(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(store, clock)
    for number in range(5):
        for item in run_segments(40, job=f"run-{number}"):
            service.receive(body([item]), "gpu-1")
    service.evaluate()
    restarted = Service(store, clock)
    assert {name: restarted.job(name) is not None for name in states(service)} == {
        f"run-{number}": True for number in range(5)
    }
    assert np.all([restarted.job(f"run-{number}")[0].current.world == 4 for number in range(5)])  # type: ignore[index]
