"""On the devices' clock a slow device and a late host have different causes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepwatch.collector.detect import straggler
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.straggler import LIMITS, RankFacts, detect
from stepwatch.collector.detect.straggler.report import Excess, cause_of
from stepwatch.collector.state.evidence.step_window import IDLE, Window
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.signals.names import Cause
from stepwatch.signals.records import Kind
from tests.collector.detect.healthy import KINDS, healthy
from tests.collector.detect.windows import slow, unknown_facts, window
from tests.collector.made import (
    EPOCH,
    JOB,
    device_step_rows,
    host_ahead_rows,
    segment,
    state_rows,
    timing_rows,
)


def on_device(step_window: Window, idle_share: float = 0.04) -> Window:
    """The same on the devices' clock: of each phase that share is idle, the host is 30 ms ahead."""
    for name in IDLE:
        step_window.planes[name][:] = idle_share * step_window.planes[name.removesuffix("_idle")]
    step_window.planes["host_lead"][:], step_window.planes["clock_error"][:] = 0.03, 1e-4
    return step_window._replace(clock=DEVICE)


def finding_of(step_window: Window, facts: RankFacts | None = None) -> Finding:
    """The one finding on a window."""
    (finding,) = detect(
        step_window, facts or unknown_facts(step_window.planes["duration"].shape[1]), LIMITS
    )
    return finding


def row(finding: Finding, name: str) -> tuple[float, str]:
    """Value and comparison of a row of evidence."""
    (evidence_row,) = [item for item in finding.evidence if item.name == name]
    return evidence_row.value, evidence_row.against


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer", "other"])
@pytest.mark.parametrize(("ranks", "stages"), [(4, 1), (8, 2), (16, 1), (4, 4)])
def test_a_late_host_leaves_its_device_idle(phase: str, ranks: int, stages: int) -> None:
    step_window = on_device(window(64, ranks, stages, noise=0.05))
    slow(step_window, 2, phase, 0.6, since=40)
    step_window.planes[f"{phase}_idle"][40:, 2] += 0.58
    finding = finding_of(step_window)
    assert (finding.rank, finding.phase, finding.cause) == (2, phase, "launch-bound")
    assert "its device waits for its host" in finding.summary
    idle, against = row(finding, f"device waits for its host in {phase} per step")
    assert idle == pytest.approx(0.58, abs=0.05) and against.startswith("peers ")


@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer", "other"])
@pytest.mark.parametrize(("ranks", "stages"), [(4, 1), (8, 2), (16, 1), (4, 4)])
def test_a_slow_device_is_slow_compute(phase: str, ranks: int, stages: int) -> None:
    step_window = on_device(window(64, ranks, stages, noise=0.05))
    slow(step_window, 2, phase, 0.6, since=40)
    finding = finding_of(step_window)
    assert (finding.rank, finding.phase, finding.cause) == (2, phase, "slow-compute")
    self_s, _ = row(finding, f"device self time in {phase} per step")
    assert self_s >= 0.55


@pytest.mark.parametrize("seed", range(3))
def test_less_slowness_of_a_device_is_enough_than_of_a_host(seed: int) -> None:
    step_window = window(64, 4, noise=0.02, seed=seed)
    slow(step_window, 2, "backward", 0.18, 30)  # 1.45 times its peers, 17 % of a step
    assert detect(step_window, unknown_facts(4), LIMITS) == []
    [finding] = detect(on_device(step_window), unknown_facts(4), LIMITS)
    assert (finding.rank, finding.phase, finding.cause) == (2, "backward", Cause.SLOW_COMPUTE)


def test_a_host_that_is_as_much_late_is_not_enough() -> None:
    step_window = on_device(window(64, 4, noise=0.02))
    slow(step_window, 2, "backward", 0.18, 30)
    step_window.planes["backward_idle"][30:, 2] += 0.18
    assert detect(step_window, unknown_facts(4), LIMITS) == []


def test_a_slow_loader_leaves_the_device_idle_in_data() -> None:
    step_window = on_device(window(64, 4))
    slow(step_window, 1, "data", 0.6, since=40)
    step_window.planes["data_idle"][:] = step_window.planes["data"]
    finding = finding_of(step_window)
    assert (finding.rank, finding.phase, finding.cause) == (1, "data", "slow-data")


def test_a_wait_for_a_cpu_explains_a_late_host_and_no_slow_device() -> None:
    queue = RankFacts(np.ones(4), np.array([0.0, 0.6, 0.0, 0.0]))
    step_window = on_device(window(64, 4))
    slow(step_window, 1, "forward", 0.9, since=40)
    assert finding_of(step_window, queue).cause == "slow-compute"
    step_window.planes["forward_idle"][40:, 1] += 0.88
    assert finding_of(step_window, queue).cause == "cpu-contention"
    assert finding_of(step_window).cause == "launch-bound"


@pytest.mark.parametrize(
    ("idle", "cause"),
    [(0.0, "slow-compute"), (0.49, "slow-compute"), (0.51, "launch-bound"), (1.2, "launch-bound")],
)
def test_most_of_the_excess_decides(idle: float, cause: str) -> None:
    nothing = unknown_facts(4)
    named = cause_of("forward", 1, Excess(1.0, idle), 2.0, nothing, LIMITS)
    assert named == cause
    assert cause_of("data", 1, Excess(1.0, idle), 2.0, nothing, LIMITS) is Cause.SLOW_DATA


def test_where_the_idle_time_is_unknown_the_cause_is_that_of_the_phase() -> None:
    named = cause_of("forward", 1, Excess(1.0, math.nan), 2.0, unknown_facts(4), LIMITS)
    assert named is Cause.SLOW_COMPUTE


@pytest.mark.parametrize(("ranks", "stages"), [(4, 1), (8, 2), (64, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_healthy_devices_name_nobody(kind: str, ranks: int, stages: int) -> None:
    named = [
        (seed, item.summary)
        for seed in range(15)
        for item in detect(
            on_device(healthy(kind, ranks, stages, seed), 0.5), unknown_facts(ranks), LIMITS
        )
    ]
    assert named == []


def context(slow_rank: int | None, device_until: int = 40) -> DetectionContext:
    """Four ranks whose hosts only enqueue; the device of one takes 0.3 s longer from step 25 on."""
    job, ranks = LiveJob(JOB), range(4)
    usual_rows = device_step_rows(range(25), ranks)
    excess = {} if slow_rank is None else {(slow_rank, "forward"): 0.3}
    later_rows = device_step_rows(range(25, device_until), ranks, excess=excess)
    tables = {
        Kind.RANK_STATE: state_rows(ranks, 4, 8.0),
        Kind.LIFECYCLE: timing_rows(ranks),
        Kind.STEP: host_ahead_rows(range(40), ranks),
    }
    job.apply(segment(1, tables), Received(EPOCH, 0.0))
    device = {Kind.DEVICE_STEP: np.concatenate([usual_rows, later_rows])}
    job.apply(segment(2, device), Received(EPOCH, 0.0))
    return DetectionContext(job, 1.0)


def test_a_slow_device_is_named_though_every_host_looks_alike() -> None:
    (finding,) = straggler.find(context(slow_rank=3))
    assert (finding.rank, finding.phase, finding.cause) == (3, "forward", "slow-compute")
    assert finding.began_step == 25
    (clock,) = [item for item in finding.evidence if item.name == "clock that timed the steps"]
    assert clock.text == "device" and "to within 0.1 ms" in clock.against


def test_healthy_devices_and_devices_that_time_nothing_name_nobody() -> None:
    assert straggler.find(context(slow_rank=None)) == []
    assert straggler.find(context(slow_rank=None, device_until=33)) == [], "rows still on their way"


def test_on_the_hosts_clock_the_evidence_says_so() -> None:
    job, ranks = LiveJob(JOB), range(4)
    rows = host_ahead_rows(range(40), ranks)
    rows["forward_ns"][(rows["rank"] == 1) & (rows["step"] >= 20)] += 100_000_000
    rows["duration_ns"][rows["step"] >= 20] += 100_000_000  # the others wait
    tables = {
        Kind.RANK_STATE: state_rows(ranks, 4, 8.0),
        Kind.LIFECYCLE: timing_rows(ranks, b"no timing events"),
        Kind.STEP: rows,
    }
    job.apply(segment(1, tables), Received(EPOCH, 0.0))
    (finding,) = straggler.find(DetectionContext(job, 1.0))
    (clock,) = [item for item in finding.evidence if item.name == "clock that timed the steps"]
    assert (clock.text, clock.against) == ("host", "ranks 0-3: no timing events")


def test_a_rank_that_computes_more_and_queues_for_it_is_slow_by_its_own_work() -> None:
    # Garbage collection of one rank on a busy host: half a second of work, 0.3 s of it in a queue.
    cpu, queue = np.array([0.5, 0.9, 0.5, 0.5]), np.array([0.1, 0.4, 0.1, 0.1])
    excess = Excess(0.5, math.nan)
    named = cause_of("forward", 1, excess, 1.0, RankFacts(cpu, queue), LIMITS)
    assert named is Cause.SLOW_COMPUTE
    cpu[1] = 0.5
    named = cause_of("forward", 1, excess, 1.0, RankFacts(cpu, queue), LIMITS)
    assert named is Cause.CPU_CONTENTION
