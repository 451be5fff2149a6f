"""Step times, histogram and SLO are the devices' where devices time the steps, and say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.cli.jobs.status_text import pace_lines
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.openslo import default_slos
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows
from tests.collector.client import Client
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    device_step_rows,
    lifecycle_rows,
    read_every_tenth_rows,
    segment,
    state_rows,
    timing_rows,
)

SECONDS = 0.3
RANKS = range(4)
A_SEGMENT = 10


class Run:
    """A healthy run of even steps, of which the hosts read the loss every tenth.

    Rows of devices come two segments after those of the hosts.
    """

    def __init__(self, service: Service, clock: HandClock) -> None:
        self.service, self.clock = service, clock
        self.sent = self.step = 0
        start = lifecycle_rows(LifecycleEvent.START, RANKS, 4)
        self.send({Kind.LIFECYCLE: np.concatenate([start, timing_rows(RANKS)])})

    def send(self, tables: dict[Kind, Rows]) -> None:
        self.sent += 1
        self.service.receive(body([segment(self.sent, tables)]))
        self.clock.advance(SECONDS * A_SEGMENT)
        self.service.evaluate()

    def go_on(self, steps: int, devices: range = RANKS) -> None:
        """Make so many steps, of which these devices time theirs."""
        for first in range(self.step, self.step + steps, A_SEGMENT):
            numbers = range(first, first + A_SEGMENT)
            tables = {
                Kind.STEP: read_every_tenth_rows(numbers, RANKS, SECONDS),
                Kind.RANK_STATE: state_rows(RANKS, 4, numbers[-1] * SECONDS, numbers[-1]),
            }
            passed = range(max(0, first - 2 * A_SEGMENT), max(0, first - A_SEGMENT))
            if devices and len(passed):
                tables[Kind.DEVICE_STEP] = device_step_rows(passed, devices, SECONDS)
            self.send(tables)
        self.step += steps

    def view(self) -> dict[str, Any]:
        document: dict[str, Any] = Client(make_api(self.service)).get(f"/v1/jobs/{JOB}").json()
        assert self.service.evaluation_failures == 0
        return document

    def metrics(self) -> dict[str, float]:
        text = Client(make_api(self.service)).get("/metrics").text
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in lines}


@pytest.fixture
def service(store: Store, clock: HandClock) -> Service:
    slos = {slo.name: slo for slo in default_slos() if slo.name == "step-time"}
    return Service(store, clock, objectives=Objectives(slos))


@pytest.fixture
def run(service: Service, clock: HandClock) -> Run:
    return Run(service, clock)


def kinds(view: dict[str, Any]) -> list[str]:
    return [item["kind"] for item in view["incidents"]]


def test_a_loss_that_is_read_every_tenth_step_makes_no_step_slow(run: Run) -> None:
    run.go_on(300)
    view = run.view()
    assert view["step_seconds"] == pytest.approx({"p50": 0.3, "p95": 0.3, "p99": 0.3})
    assert (view["step_seconds_clock"], view["recent_step_seconds_clock"]) == ("device", "device")
    assert view["recent_step_seconds"] == pytest.approx(0.3)
    (slo,) = view["slos"]
    assert (slo["state"], slo["clock"], slo["ratio"]) == ("too-early", "device", 1.0)
    assert slo["budget"] == "too early"
    assert kinds(view) == []
    lines = dict(pace_lines(view))
    assert lines["step time"].endswith("timed on the device")
    assert lines["SLO"].startswith("step-time (device): too early")


def test_the_histogram_is_the_devices(run: Run) -> None:
    run.go_on(300)
    metrics, job = run.metrics(), f'job_name="{JOB}"'
    series = "stepwatch_step_duration_seconds"
    assert metrics[f'{series}_bucket{{{job},le="0.2"}}'] == 0
    assert (
        metrics[f'{series}_bucket{{{job},le="0.5"}}'] == metrics[f"{series}_count{{{job}}}"] == 280
    )
    assert metrics[f'stepwatch_steps_total{{clock="device",{job}}}'] == 280
    assert f'stepwatch_steps_total{{clock="host",{job}}}' not in metrics


def test_goodput_counts_the_work_of_devices_where_it_was_done(run: Run) -> None:
    run.go_on(300)
    metrics = run.metrics()
    labels = f'job_name="{JOB}",sli="goodput"'
    good = metrics[f"stepwatch_sli_good_device_seconds{{{labels}}}"]
    assert good == pytest.approx(metrics[f"stepwatch_sli_device_seconds{{{labels}}}"])
    assert good == pytest.approx(280 * SECONDS * 4)


def test_a_device_that_is_lost_in_mid_run_is_no_regression(run: Run) -> None:
    run.go_on(200)
    run.send({Kind.LIFECYCLE: timing_rows([2], b"device lost", time_s=61.0)})
    metrics_before = run.metrics()
    run.go_on(500, devices=RANKS[:2])
    view, metrics_after = run.view(), run.metrics()
    assert kinds(view) == []
    assert view["timing"]["reason"] == "rank 2: device lost"
    assert view["steps_on"] == {"device": 179, "host": 520}
    assert (view["step_seconds_clock"], view["recent_step_seconds_clock"]) == ("host", "host")
    (slo,) = view["slos"]
    assert (slo["state"], slo["clock"]) == ("too-early", "mixed")
    assert "timed on the host in 520 of 699 steps" in dict(pace_lines(view))["step time"]
    counted = {name for name in metrics_before if "_total" in name or "step_duration" in name}
    assert counted and all(metrics_after[name] >= metrics_before[name] for name in counted)


def test_a_rank_on_its_host_beside_devices_puts_all_there(service: Service) -> None:
    run = Run(service, HandClock())
    run.send({Kind.LIFECYCLE: timing_rows([3], b"no timing events", time_s=0.1)})
    run.go_on(700, devices=RANKS[:3])
    view = run.view()
    assert kinds(view) == []
    assert view["timing"]["reason"] == "rank 3: no timing events"
    assert (view["timing"]["clock"], view["step_seconds_clock"]) == ("host", "host")
    assert view["steps_on"] == {"device": 0, "host": 699}
    (slo,) = view["slos"]
    assert (slo["state"], slo["ratio"]) == ("unknown", None), "a host that runs ahead says nothing"
