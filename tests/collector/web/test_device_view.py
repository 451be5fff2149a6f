"""Figures say which clock they are on: the devices' where all ranks have it, else the hosts'."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.cli.jobs.status_text import rank_table, timing_words
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows
from tests.collector.client import Client
from tests.collector.gathered import call_rows, device_call_rows, group_rows
from tests.collector.made import (
    JOB,
    body,
    device_step_rows,
    host_ahead_rows,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    timing_rows,
)

STEPS, RANKS, LATE = 40, range(4), 1
"""The host of rank 1 is late: its device waits for it for 50 ms of each 200 ms."""


def device_calls(host: Rows, exposed: dict[int, float]) -> Rows:
    """DEVICE_COLLECTIVE rows of the same calls, each rank's stream standing so many seconds."""
    return device_call_rows(host, [exposed[rank] for rank in host["rank"].tolist()])


@pytest.fixture
def client(service: Service) -> Client:
    """A run whose hosts only enqueue: in 1 ms a collective, while the devices stand there."""
    host_calls = call_rows(range(STEPS), dict.fromkeys(RANKS, 0.001))
    tables = {
        Kind.RANK_STATE: state_rows(RANKS, 4, STEPS * 0.2),
        Kind.LIFECYCLE: np.concatenate(
            [lifecycle_rows(LifecycleEvent.START, RANKS, 4), timing_rows(RANKS)]
        ),
        Kind.STEP: host_ahead_rows(range(STEPS), RANKS),
        Kind.GROUP: group_rows(7, RANKS),
        Kind.COLLECTIVE: host_calls,
    }
    service.receive(body([segment(1, tables)]))
    late_tables = {
        Kind.DEVICE_STEP: device_step_rows(range(STEPS), RANKS, idle={(LATE, "forward"): 0.05}),
        Kind.DEVICE_COLLECTIVE: device_calls(host_calls, {0: 0.04, LATE: 0.01, 2: 0.04, 3: 0.04}),
    }
    service.receive(body([segment(2, late_tables)]))
    service.evaluate()
    return Client(make_api(service))


def test_the_breakdown_is_the_devices(client: Client) -> None:
    job = client.get(f"/v1/jobs/{JOB}").json()
    timing, parts = job["timing"], job["step_time_breakdown"]
    assert (timing["clock"], timing["reason"], timing["devices"]) == ("device", None, ["sim"])
    assert timing["idle_seconds"]["forward"] == pytest.approx(0.05 / 4)
    assert timing["idle_ratio"] == pytest.approx(0.05 / 4 / 0.2)
    assert timing["launch_bound"] is False
    assert timing["host_lead_seconds"] == pytest.approx(0.03)
    assert timing["clock_error_seconds"] == pytest.approx(1e-4)
    assert parts["ratio"]["backward"] == pytest.approx(0.4)
    assert parts["ratio"]["unaccounted"] == pytest.approx(0.0, abs=1e-6)
    assert job["step_seconds_clock"] == "device"
    assert job["step_seconds"]["p50"] == pytest.approx(0.2)


def test_each_rank_says_how_long_its_device_waits(client: Client) -> None:
    ranks = client.get(f"/v1/jobs/{JOB}").json()["ranks"]
    assert [rank["device_idle_share"] for rank in ranks] == pytest.approx([0, 0.25, 0, 0])
    assert [rank["host_lead_seconds"] for rank in ranks] == pytest.approx([0.03] * 4)
    assert ranks[0]["phase_share"]["forward"] == pytest.approx(0.25)
    assert "dev.idle" in rank_table(ranks) and "25%" in rank_table(ranks)


def test_who_arrives_last_is_told_by_the_streams(client: Client) -> None:
    document = client.get(f"/v1/jobs/{JOB}/collectives").json()
    (line,) = document["collectives"]
    assert (document["clock"], line["last_arriver"]) == ("device", LATE)
    assert line["transfer_seconds"] == pytest.approx(0.01)
    assert line["arrival_skew_seconds"] == pytest.approx(0.03 * 3 / 4)


def test_the_heatmap_shows_where_devices_wait(client: Client) -> None:
    heatmap = client.get(f"/v1/jobs/{JOB}/heatmap?metric=device_idle").json()
    assert heatmap["clock"] == "device"
    assert [set(row) for row in heatmap["seconds"]] == [{0.0}, {0.05}, {0.0}, {0.0}]


def test_gauges_of_the_devices(client: Client) -> None:
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
    idle = float(lines[f'stepwatch_device_idle_ratio{{job_name="{JOB}"}}'])
    lead = float(lines[f'stepwatch_host_lead_seconds{{job_name="{JOB}"}}'])
    assert (idle, lead) == pytest.approx((0.05 / 4 / 0.2, 0.03))


def test_gauges_of_devices_are_absent_on_the_hosts_clock(service: Service) -> None:
    service.receive(body(run_segments(20)))
    text = Client(make_api(service)).get("/metrics").text
    assert "stepwatch_device_idle_ratio{" not in text
    assert "stepwatch_host_lead_seconds{" not in text


def test_on_the_hosts_clock_the_devices_are_unknown(service: Service) -> None:
    tables = {
        Kind.RANK_STATE: state_rows(RANKS, 4, STEPS * 0.2),
        Kind.LIFECYCLE: timing_rows(RANKS, b"no timing events"),
        Kind.STEP: host_ahead_rows(range(STEPS), RANKS),
    }
    service.receive(body([segment(1, tables)]))
    client = Client(make_api(service))
    job = client.get(f"/v1/jobs/{JOB}").json()
    timing = job["timing"]
    assert (timing["clock"], timing["reason"]) == ("host", "ranks 0-3: no timing events")
    assert (timing["idle_ratio"], timing["launch_bound"]) == (None, None)
    assert set(timing["idle_seconds"].values()) == {None}
    assert timing_words(timing) == "the host: ranks 0-3: no timing events"
    rank = job["ranks"][0]
    assert (rank["device_idle_share"], rank["host_lead_seconds"]) == (None, None)
    assert "dev.idle" not in rank_table(job["ranks"])
    heat = client.get(f"/v1/jobs/{JOB}/heatmap?metric=device_idle").json()
    assert {cell for row in heat["seconds"] for cell in row} == {None}


def test_a_launch_bound_job_is_said_and_no_incident(service: Service) -> None:
    idle = {(rank, "forward"): 0.048 for rank in RANKS}
    tables = {
        Kind.RANK_STATE: state_rows(RANKS, 4, STEPS * 0.2),
        Kind.LIFECYCLE: timing_rows(RANKS),
        Kind.STEP: host_ahead_rows(range(STEPS), RANKS),
        Kind.DEVICE_STEP: device_step_rows(range(STEPS), RANKS, idle=idle),
    }
    service.receive(body([segment(1, tables)]))
    service.evaluate()
    job = Client(make_api(service)).get(f"/v1/jobs/{JOB}").json()
    assert job["timing"]["launch_bound"] is True
    assert "up to 24% of the step: launch-bound" in timing_words(job["timing"])
    assert [item["kind"] for item in job["incidents"] if item["kind"] != "telemetry-lost"] == []
