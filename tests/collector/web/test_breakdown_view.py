"""From segments to the JSON of step-time breakdown, pipeline, what-if and collectives."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stepwatch.collector.analysis import newest_steps
from stepwatch.collector.detect.finding import build_finding
from stepwatch.collector.detect.straggler.inputs import with_arrival_skew
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state import job as jobs
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.collective_timing import Waits
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.microbatches import Microbatches
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.breakdown import parts
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import Kind, Op
from tests.collector.client import Client
from tests.collector.gathered import PAIRS, SINCE, SLOW, STEPS, call_rows, gathering_run, group_rows
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    microbatch_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)


@pytest.fixture
def evaluated(service: Service, clock: HandClock) -> Client:
    clock.advance(STEPS * 0.2 - 59.0)
    for item in gathering_run():
        service.receive(body([item]))
    service.evaluate()
    return Client(make_api(service))


def test_collectives_name_the_last_arriver(evaluated: Client) -> None:
    reported = evaluated.get(f"/v1/jobs/{JOB}/collectives").json()
    assert (reported["attempt"], reported["steps"], reported["left_out"]) == (0, [0, STEPS - 1], 0)
    lines = {line["group"]: line for line in reported["collectives"]}
    assert set(lines) == set(PAIRS)
    slow, healthy = lines[11], lines[10]
    assert (slow["op"], slow["ranks"], slow["size"]) == ("all_gather", "2,3", 2)
    assert (slow["last_arriver"], slow["last_arriver_ratio"]) == (SLOW, 1.0)
    assert slow["transfer_seconds"] == pytest.approx(0.04, rel=1e-3)
    assert slow["arrival_skew_seconds"] == pytest.approx(0.2 / 2 / 2, rel=1e-3), (
        "half the steps and ranks"
    )
    assert (healthy["last_arriver"], healthy["arrival_skew_seconds"]) == (None, 0.0)
    assert slow["bus_bytes_per_second"] == pytest.approx(1000 / 0.04, rel=1e-3)


def test_metrics_hold_what_each_operation_blocked_a_rank_for(evaluated: Client) -> None:
    """In the newest steps all are of the slow half: rank 3 waits 0.2 s for rank 2, then both are
    blocked for 0.04 s; ranks 0 and 1 are blocked for 0.24 s at once."""
    text = evaluated.get("/metrics").text
    for part, seconds in (("transfer", (0.04 + 0.24) / 2), ("arrival-skew", 0.2 / 4)):
        labels = f'job_name="{JOB}",operation="all_gather",part="{part}"'
        (matched,) = re.findall(
            rf"^stepwatch_job_collective_seconds\{{{labels}\}} (.*)$", text, re.MULTILINE
        )
        assert float(matched) == pytest.approx(seconds, rel=1e-3), part


def test_the_job_shows_step_time_breakdown_pipeline_and_what_if(evaluated: Client) -> None:
    job = evaluated.get(f"/v1/jobs/{JOB}").json()
    parts = job["step_time_breakdown"]
    assert sum(parts["seconds"].values()) == pytest.approx(parts["step_seconds"])
    assert sum(parts["ratio"].values()) == pytest.approx(1.0)
    assert parts["seconds"]["transfer"] > 0 and parts["seconds"]["collective_unsplit"] == 0
    assert (parts["steps"], parts["rank_steps"]) == ([0, STEPS - 1], STEPS * 4)
    assert [stage["stage"] for stage in job["pipeline"]["stages"]] == [0, 1]
    saved = {item["scenario"]: item["device_hours"] for item in job["what_if"]}
    excess = 0.2 * (STEPS - SINCE) * 4 / 3600
    assert saved["without stragglers"] == pytest.approx(excess, rel=1e-3)
    assert saved["with perfect overlap"] == pytest.approx(0.04 * STEPS * 4 / 3600, rel=1e-3)


def test_the_job_tells_microbatches_of_the_newest_sample(service: Service) -> None:
    service.receive(body(run_segments(10)))
    client = Client(make_api(service))
    assert client.get(f"/v1/jobs/{JOB}").json()["microbatches"] is None, "no sample yet"
    service.receive(body([segment(9, {Kind.MICROBATCH: microbatch_rows(8, range(4))})]))
    reported = client.get(f"/v1/jobs/{JOB}").json()["microbatches"]
    assert (reported["step"], reported["ranks"], reported["left_out"]) == (8, 4, 0)
    first, last = reported["stages"]
    assert (first["stage"], first["ranks"], first["bubble_ratio"]) == (0, 2, 0.0)
    assert last["idle_seconds"] == pytest.approx(0.01)
    assert last["bubble_ratio"] == pytest.approx(1 / 13)
    cell = last["microbatches"][0]
    assert cell["forward_idle_before_seconds"] == pytest.approx(0.01)
    assert cell["backward_busy_seconds"] == pytest.approx(0.02)
    assert (last["rank"], len(last["chunks"])) == (2, 8)


def test_microbatches_of_old_attempts_are_given_back() -> None:
    attempt = Attempt(0)
    tables = {
        Kind.RANK_STATE: state_rows(range(4), 4, 1.0),
        Kind.MICROBATCH: microbatch_rows(8, range(4)),
    }
    attempt.apply(segment(1, tables), Received(0.0, 0.0))
    assert attempt.tracker(Microbatches).cells == 36
    attempt.release()
    attempt.apply(segment(2, tables), Received(0.0, 0.0))
    assert attempt.tracker(Microbatches).cells == 0


def test_the_straggler_arrives_last(evaluated: Client) -> None:
    job = evaluated.get(f"/v1/jobs/{JOB}").json()
    (incident,) = [entry for entry in job["incidents"] if entry["kind"] == "straggler"]
    assert incident["rank"] == SLOW
    rows = {row["name"]: row for row in incident["evidence"]}
    row = rows["made others wait in all_gather per step"]
    assert row["value"] == pytest.approx(0.2, rel=1e-3)
    assert row["against"].startswith("100% of all arrival skew")


@pytest.mark.parametrize("world", [4, 64])
def test_how_long_others_wait_does_not_grow_with_how_many_they_are(world: int) -> None:
    """Rank 1 arrives 0.2 s late: each of the others waits 0.2 s a step."""
    rows = np.zeros(world, dtype=[("step", "<i8"), ("op", "<i8"), ("group", "<i8")])
    wait = np.where(np.arange(world) == 1, 0.0, 0.2)
    nothing = np.zeros(world, dtype=np.int64)
    waits = Waits(rows, np.zeros(world), wait, nothing, np.array([0]), np.array([1]))
    finding = build_finding(
        kind=FindingKind.STRAGGLER, cause=Cause.SLOW_COMPUTE, summary="", began_step=0, rank=1
    )
    (row,) = with_arrival_skew(finding, waits).evidence
    assert row.value == pytest.approx(0.2)


def test_a_restart_tells_the_same(evaluated: Client, store: Store, clock: HandClock) -> None:
    restarted = Client(make_api(Service(store, clock)))
    for path in (f"/v1/jobs/{JOB}/collectives", f"/v1/jobs/{JOB}"):
        assert restarted.get(path).json() == evaluated.get(path).json(), path


def test_without_collectives_nothing_is_made_up(service: Service) -> None:
    service.receive(body(run_segments(10)))
    client = Client(make_api(service))
    reported = client.get(f"/v1/jobs/{JOB}/collectives").json()
    nothing = {"attempt": 0, "steps": [0, 9], "clock": "host", "collectives": [], "left_out": 0}
    assert reported == {**nothing, "as_of": reported["as_of"]}
    parts = client.get(f"/v1/jobs/{JOB}").json()["step_time_breakdown"]
    assert parts["ratio"]["collective_unsplit"] == pytest.approx(0.2)
    assert parts["ratio"]["transfer"] == parts["ratio"]["arrival_skew"] == 0
    assert client.get("/v1/jobs/nobody/collectives").status_code == 404


def test_before_the_first_step_all_is_unknown(service: Service) -> None:
    service.receive(body([segment(1, {Kind.RANK_STATE: state_rows(range(4), 4, 1.0)})]))
    client = Client(make_api(service))
    job = client.get(f"/v1/jobs/{JOB}").json()
    assert (job["step_time_breakdown"], job["pipeline"], job["what_if"]) == (None, None, [])
    assert job["microbatches"] is None
    assert client.get(f"/v1/jobs/{JOB}/collectives").json()["steps"] is None


def test_a_large_job_is_judged_over_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_steps, "MAX_CELLS", 40)
    attempt = Attempt(0)
    states = {Kind.RANK_STATE: state_rows(range(4), 4, 1.0), Kind.STEP: step_rows(range(30), [1])}
    attempt.apply(segment(1, states), Received(0.0, 0.0))
    assert parts.collectives(attempt)["steps"] == (20, 29)
    monkeypatch.setattr(newest_steps, "MAX_CELLS", 1)
    assert parts.collectives(attempt)["steps"] == (22, 29)


def test_collectives_of_old_attempts_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_JOB_CELLS", 4_000)
    job = LiveJob(JOB)
    for number in range(5):
        tables = {
            Kind.RANK_STATE: state_rows(range(2), 2, 1.0),
            Kind.COLLECTIVE: call_rows(range(500), {0: 0.1, 1: 0.1}, op=Op.BARRIER),
            Kind.GROUP: group_rows(7, [0, 1]),
        }
        job.apply(segment(1, tables, attempt=number), Received(0.0, 0.0))
    assert job.cells <= jobs.MAX_JOB_CELLS
    assert [attempt.collective_records.cells > 0 for attempt in job.attempts.values()] == [
        False
    ] * 4 + [True]
    job.apply(segment(2, tables, attempt=0), Received(0.0, 0.0))
    assert job.attempts[0].collective_records.cells == 0, "what was given back stays so"
