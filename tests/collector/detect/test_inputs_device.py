"""Detectors of the job on the devices' clock, where every host only enqueues."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect import (
    data_stall,
    pipeline_bubble,
    slow_collective,
    straggler,
    throughput_regression,
)
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.detect.registry import discover
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.web.breakdown.parts import breakdown
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Rows
from tests.collector.gathered import call_rows, device_call_rows, group_rows
from tests.collector.made import (
    EPOCH,
    JOB,
    device_step_rows,
    host_ahead_rows,
    segment,
    state_rows,
    step_rows,
    timing_rows,
)

RANKS, SINCE, STEPS = range(4), 60, 100
SECONDS = 2.0


def device_calls(steps: range, exposed: dict[int, float]) -> Rows:
    """DEVICE_COLLECTIVE rows of four calls a step, all of them timed."""
    host = call_rows(steps, exposed)
    return device_call_rows(host, host["exposed_ns"] / 1e9)


def context(device: Rows, calls: Rows | None = None, steps: int = STEPS) -> DetectionContext:
    """A job of four ranks, two to a stage, whose hosts all look alike at every step."""
    job = LiveJob(JOB)
    host = host_ahead_rows(range(steps), RANKS, SECONDS)
    host["time_ns"] += device["time_ns"].max() - host["time_ns"].max()
    tables = {
        Kind.RANK_STATE: state_rows(RANKS, 4, steps * SECONDS),
        Kind.LIFECYCLE: timing_rows(RANKS),
        Kind.STEP: host,
        Kind.GROUP: group_rows(7, RANKS),
        Kind.COLLECTIVE: call_rows(range(steps), dict.fromkeys(RANKS, 0.001)),
    }
    job.apply(segment(1, tables), Received(EPOCH, 0.0))
    device_tables = {Kind.DEVICE_STEP: device}
    if calls is not None:
        device_tables[Kind.DEVICE_COLLECTIVE] = calls
    job.apply(segment(2, device_tables), Received(EPOCH, 0.0))
    return DetectionContext(job, 1.0)


def device_steps(since: int = STEPS, grown: dict[str, float] | None = None) -> Rows:
    """Steps of `SECONDS`; from `since` on each rank takes so many seconds more in these columns."""
    rows = device_step_rows(range(STEPS), RANKS, SECONDS)
    for name, more in (grown or {}).items():
        rows[f"{name}_seconds"][rows["step"] >= since] += more
        rows["duration_seconds"][rows["step"] >= since] += more
    return rows


def test_a_slow_transfer_shows_on_the_streams_alone() -> None:
    usual, slow = dict.fromkeys(RANKS, 0.1), dict.fromkeys(RANKS, 0.9)
    calls = [device_calls(range(SINCE), usual), device_calls(range(SINCE, STEPS), slow)]
    run_context = context(device_steps(SINCE, {"collective": 0.8}), np.concatenate(calls))
    (finding,) = slow_collective.find(run_context)
    assert (finding.rank, finding.cause, finding.began_step) == (NO_RANK, "slow-transfer", SINCE)
    rows = {row.name: row for row in finding.evidence}
    assert rows["transfer per step"].value == pytest.approx(0.9)
    assert rows["clock that timed the steps"].text == "device"
    assert straggler.find(run_context) == []


def test_skew_on_the_streams_is_no_slow_transfer() -> None:
    skewed = {0: 0.1, 1: 0.9, 2: 0.9, 3: 0.9}
    usual = dict.fromkeys(RANKS, 0.1)
    calls = [device_calls(range(SINCE), usual), device_calls(range(SINCE, STEPS), skewed)]
    run_context = context(device_steps(SINCE, {"collective": 0.8}), np.concatenate(calls))
    assert slow_collective.find(run_context) == []


def test_a_job_that_waits_for_data_on_every_device() -> None:
    run_context = context(device_steps(SINCE, {"data": 2.0}))
    (finding,) = data_stall.find(run_context)
    assert (finding.phase, finding.rank) == ("data", NO_RANK)
    assert abs(finding.began_step - SINCE) <= 1


def test_a_job_whose_devices_slowed_down_though_each_host_returns_as_before() -> None:
    rows = device_steps(20, {"backward": 1.0})
    (finding,) = throughput_regression.find(context(rows))
    assert (finding.phase, finding.cause) == ("backward", "all-ranks-slower")
    assert finding.ratio == pytest.approx(1.5, rel=0.05)
    assert straggler.find(context(rows)) == []


def test_a_stage_of_the_pipeline_that_works_longer() -> None:
    rows = device_steps()
    limiting = (rows["rank"] >= 2) & (rows["step"] >= SINCE)
    rows["forward_seconds"][limiting] += 1.5
    rows["duration_seconds"][rows["step"] >= SINCE] += 1.5
    rows["pipeline_wait_seconds"][~limiting & (rows["step"] >= SINCE)] += 1.5
    (finding,) = pipeline_bubble.find(context(rows))
    assert (finding.subject, finding.cause) == ("stage 1", "stage-imbalance")


def test_healthy_devices_raise_nothing() -> None:
    run_context = context(device_steps(), device_calls(range(STEPS), dict.fromkeys(RANKS, 0.1)))
    assert run_context.window.clock == "device"
    for detector in (
        straggler,
        data_stall,
        pipeline_bubble,
        slow_collective,
        throughput_regression,
    ):
        assert detector.find(run_context) == [], detector.__name__


def queue_fills(steps: int, ranks: range = RANKS) -> Rows:
    """STEP rows of hosts that never wait: 40 steps are enqueued in 10 ms each, then the queue is
    full, and each takes as long as the device's."""
    rows = host_ahead_rows(range(steps), ranks, SECONDS)
    early_mask = rows["step"] < 40
    rows["duration_ns"][early_mask], rows["other_ns"][early_mask] = 10_000_000, 5_000_000
    return rows


def lost_at(lost: int, steps: int, ranks: range = RANKS) -> DetectionContext:
    """A healthy job whose devices time these ranks until step `lost`, where one says why not."""
    job = LiveJob(JOB)
    host = queue_fills(steps)
    first = {
        Kind.RANK_STATE: state_rows(RANKS, 4, steps * SECONDS),
        Kind.LIFECYCLE: timing_rows(ranks),
        Kind.STEP: host[host["step"] < lost],
    }
    then = {
        Kind.LIFECYCLE: timing_rows([3], b"device lost", time_s=lost * SECONDS),
        Kind.STEP: host[host["step"] >= lost],
    }
    device = {Kind.DEVICE_STEP: device_step_rows(range(lost), ranks, SECONDS)}
    for number, tables in enumerate((first, device, then)):
        job.apply(segment(number + 1, tables), Received(EPOCH, 0.0))
    return DetectionContext(job, 1.0)


@pytest.mark.parametrize(("lost", "ranks"), [(300, RANKS), (60, RANKS), (0, range(3))])
def test_a_switch_of_clock_is_no_regression(lost: int, ranks: range) -> None:
    run_context = lost_at(lost, 400, ranks)
    assert run_context.window.clock == "host"
    for detector in (throughput_regression, data_stall, pipeline_bubble, slow_collective):
        assert detector.find(run_context) == [], detector.__name__


def test_a_job_that_is_timed_on_devices_later_is_compared_with_nothing_of_its_host() -> None:
    job = LiveJob(JOB)
    host = queue_fills(400)
    first_tables = {
        Kind.RANK_STATE: state_rows(RANKS, 4, 400 * SECONDS),
        Kind.STEP: host[host["step"] < 100],
    }
    second_tables = {
        Kind.LIFECYCLE: timing_rows(RANKS, time_s=200.0),
        Kind.STEP: host[host["step"] >= 100],
        Kind.DEVICE_STEP: device_step_rows(range(100, 400), RANKS, SECONDS),
    }
    for number, tables in enumerate((first_tables, second_tables)):
        job.apply(segment(number + 1, tables), Received(EPOCH, 0.0))
    run_context = DetectionContext(job, 1.0)
    assert run_context.window.clock == "device"
    assert throughput_regression.find(run_context) == []


def test_a_slower_attempt_on_the_devices_is_told_whatever_its_host_says() -> None:
    job = LiveJob(JOB)
    for attempt, seconds in enumerate((SECONDS, 2 * SECONDS)):
        tables = {
            Kind.RANK_STATE: state_rows(RANKS, 4, 200 * seconds),
            Kind.LIFECYCLE: timing_rows(RANKS),
            Kind.STEP: queue_fills(200),
        }
        tables[Kind.STEP]["time_ns"] = tables[Kind.STEP]["time_ns"] * (attempt + 1)
        device = {Kind.DEVICE_STEP: device_step_rows(range(200), RANKS, seconds)}
        for number, rows in enumerate((tables, device)):
            item = segment(number + 1, rows, attempt=attempt)
            job.apply(item, Received(EPOCH, 0.0))
    (finding,) = throughput_regression.find(DetectionContext(job, 1.0))
    assert finding.ratio == pytest.approx(2.0, rel=0.01)


def test_in_a_mixed_world_a_host_that_waits_is_not_compared_with_those_that_run_ahead() -> None:
    job = LiveJob(JOB)
    on_device, on_host = range(3), range(3, 4)
    host = [
        host_ahead_rows(range(STEPS), on_device, SECONDS),
        step_rows(range(STEPS), on_host, SECONDS),
    ]
    tables = {
        Kind.RANK_STATE: state_rows(RANKS, 4, STEPS * SECONDS),
        Kind.LIFECYCLE: np.concatenate(
            [timing_rows(on_device), timing_rows(on_host, b"no timing events")]
        ),
        Kind.STEP: np.concatenate(host),
        Kind.DEVICE_STEP: device_step_rows(range(STEPS), on_device, SECONDS),
    }
    job.apply(segment(1, tables), Received(EPOCH, 0.0))
    run_context = DetectionContext(job, 1.0)
    assert (run_context.window.clock, run_context.compares_ranks) == ("host", False)
    kinds = [finding.kind for detector in discover() for finding in detector.find(run_context)]
    assert kinds == []
    assert breakdown(job.current)["what_if"] == []
