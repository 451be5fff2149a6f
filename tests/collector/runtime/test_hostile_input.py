"""Segments that are well-formed and absurd: they are refused or counted, and stop nothing."""

from __future__ import annotations

import json
import math
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state import attempt as attempt_module
from stepwatch.collector.state import job as jobs
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import MAX_WORLD, Received
from stepwatch.collector.state.trackers.memory_history import MemoryHistory
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.state.trackers.nodes.agents import Agents
from stepwatch.collector.state.trackers.nodes.node_facts import NodeFacts
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.collector.state.trackers.steps.rank_history import RankHistory
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view
from stepwatch.collector.web.breakdown import parts
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, make_rows
from stepwatch.signals.wire import Rows, Segment
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    random_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)


def extremes(dtype: np.dtype[Any]) -> list[Any]:
    """Values at the edges of a field."""
    bits = 8 * dtype.itemsize
    return {
        "u": [0, 1, 2**bits - 1, 2 ** (bits - 1)],
        "i": [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))],
        "f": [0.0, math.nan, math.inf, -math.inf, 3e38, -1.0],
        "S": [b"", b"\xff" * dtype.itemsize, b"a\0b", b'"\n'],
    }[dtype.kind]


def hostile_rows(kind: Kind, count: int, noise: np.random.Generator) -> Rows:
    """Rows at the edges of every field, often of ranks, steps and worlds that exist."""
    rows = make_rows(kind, count)
    for name in rows.dtype.names or ():
        values = extremes(rows.dtype[name])
        rows[name] = [values[index] for index in noise.integers(0, len(values), count)]
    if noise.random() < 0.7:
        rows["rank"], rows["step"] = noise.integers(-1, 5, count), noise.integers(0, 30, count)
    if kind is Kind.RANK_STATE:
        rows["world"] = noise.choice([4, 4, 5, 2**32 - 1, 0], count)
    return rows


def everything_said(service: Service) -> str:
    """All that a reader could ask for, as strict JSON."""
    evaluated = [(job, verdicts) for job, verdicts in service.jobs_now()[0]]
    for job, _ in evaluated:
        for metric in job_view.HEATMAP_METRICS:
            json.dumps(job_view.heatmap(job.current, metric), allow_nan=False)
        json.dumps(parts.collectives(job.current), allow_nan=False)
        json.dumps(parts.breakdown(job.current), allow_nan=False)
    for metric_family in JobExporter(service).collect():
        assert all(not math.isnan(sample.value) for sample in metric_family.samples)
    incidents = [
        item.document() for _, verdicts in evaluated for item in verdicts.incidents.values()
    ]
    json.dumps(incidents, allow_nan=False)
    return repr([job_view.job_summary(job, verdicts, service.now()) for job, verdicts in evaluated])


@pytest.mark.parametrize("seed", range(40))
def test_no_value_of_any_field_stops_the_collector(
    store: Store, clock: HandClock, seed: int
) -> None:
    noise = np.random.default_rng(seed)
    make = hostile_rows if seed % 4 else random_rows
    service = Service(store, clock)
    sent = run_segments(12) if seed % 2 else []
    for number in range(100, 104):
        kinds = [kind for kind in Kind if noise.random() < 0.6]
        tables = {kind: make(kind, int(noise.integers(1, 20)), noise) for kind in kinds}
        sent.append(segment(number, tables))
    for item in sent:
        assert [verdict.verdict for verdict in service.receive(body([item]))] == ["accepted"]
        service.evaluate()
        clock.advance(1.0)
    report_text = everything_said(service)
    assert service.evaluation_failures == 0
    restarted = Service(store, clock)
    assert everything_said(restarted) == report_text, "a restart survives the same rows"


def hear(attempt: Attempt, tables: dict[Kind, Rows], number: int = 1) -> None:
    attempt.apply(segment(number, tables), Received(0.0, 0.0))


def test_a_huge_world_is_refused_without_allocation() -> None:
    attempt = Attempt(0)
    rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = state_rows(range(4), 4, 1.0)
    for world in (2**32 - 1, MAX_WORLD + 1):
        rows["world"] = world
        hear(attempt, {Kind.RANK_STATE: rows})
    hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(4), 2**62)})
    hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(4), -1)})
    assert attempt.world == 0 and attempt.refused_records == 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_before < 50_000  # KiB


def test_a_huge_step_is_refused_without_allocation() -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)})
    hear(attempt, {Kind.STEP: step_rows(range(5), range(2))})
    rss_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    hear(attempt, {Kind.STEP: step_rows([2**32 - 1, 2**31, 5 + (1 << 20)], range(2))})
    assert attempt.refused_records == 6
    assert len(attempt.steps.history) == 5
    assert attempt.window(10).steps.tolist() == [0, 1, 2, 3, 4], "and blinds no detector"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss_before < 20_000


@pytest.mark.parametrize("name", ["duration_ns", "forward_ns", "collective_ns", "time_ns"])
def test_impossible_times_spoil_no_sum(name: str) -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)})
    rows = step_rows(range(4), range(2))
    rows[name][3] = 2**64 - 1
    hear(attempt, {Kind.STEP: rows})
    assert attempt.refused_records == 1
    assert attempt.steps.history.rows["reported"].tolist() == [2, 1, 2, 2]
    assert attempt.steps.rank_seconds["duration"].sum() == pytest.approx(7 * 0.2)
    assert attempt.steps.newest_s < 1.9e9


def test_ranks_that_do_not_exist_finish_nothing() -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)})
    for rank in (-1, -(2**31), 2, 2**31 - 1):
        hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, [rank])})
    hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, [0])})
    assert not attempt.outcome.finished
    hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, [1])})
    assert attempt.outcome.finished


def test_a_failure_stays_one_whatever_follows() -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(1), 1, 1.0)})
    hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FAILURE, [0])})
    hear(attempt, {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, [0])})
    assert attempt.outcome.failed and not attempt.outcome.finished


def test_unknown_events_and_texts_are_passed_over() -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(1), 1, 1.0)})
    odd = lifecycle_rows(LifecycleEvent.START, [0], 1)
    odd["event"] = 77
    hear(attempt, {Kind.LIFECYCLE: odd})
    hear(attempt, {Kind.CHECKPOINT: checkpoint_rows(77, [0], 3, b"\xff\xfe")})
    hear(attempt, {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.FAILED, [0], 4, b"\xff")})
    assert attempt.lifecycle.events == []
    assert attempt.checkpoints.by_step[3].verified is None
    assert attempt.checkpoints.by_step[4].reason == "\ufffd"


def test_a_bad_checkpoint_is_never_made_good_by_another_rank() -> None:
    attempt = Attempt(0)
    for event in (CheckpointEvent.VERIFIED, CheckpointEvent.FAILED, CheckpointEvent.VERIFIED):
        hear(attempt, {Kind.CHECKPOINT: checkpoint_rows(event, [0], 9)})
    assert attempt.checkpoints.by_step[9].verified is False


MONTH_NS, LARGEST = 31 * 86_400 * NANOSECONDS, 2**64 - 1


def saved(attempt: Attempt, event: CheckpointEvent, time_s: float, **values: int) -> None:
    """Both ranks say it of step 9 at run time `at`, rank 1 with `values`."""
    rows = checkpoint_rows(event, range(2), 9)
    rows["time_ns"], rows["stall_ns"] = round(time_s * NANOSECONDS), 0
    for name, value in values.items():
        rows[name][1] = value
    hear(attempt, {Kind.CHECKPOINT: rows})


@pytest.mark.parametrize("stall_ns", [LARGEST, 2**63, MONTH_NS, 601 * NANOSECONDS])
def test_a_stall_longer_than_the_attempt_is_unknown(stall_ns: int) -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)})
    up_before = 40 * 86_400.0  # the node was up for longer than the stall that is reported
    start = lifecycle_rows(LifecycleEvent.START, range(2), 2, time_s=up_before)
    hear(attempt, {Kind.LIFECYCLE: start})
    now = up_before + 600.0
    saved(attempt, CheckpointEvent.BEGIN, now - 5.0)
    assert attempt.checkpoints.in_flight.newest[9].in_progress
    saved(attempt, CheckpointEvent.BEGIN, now, stall_ns=stall_ns)
    save = attempt.checkpoints.in_flight.newest[9]
    assert math.isnan(save.stall[1]) and save.began_ns.tolist()[1] == 0
    assert attempt.checkpoints.by_step[9].stall_seconds is None
    saved(attempt, CheckpointEvent.BEGIN, now, stall_ns=600 * NANOSECONDS)
    assert attempt.checkpoints.by_step[9].stall_seconds == 600.0
    assert save.stall[1] == 600.0


def test_a_stall_longer_than_the_machine_was_up_is_unknown_without_a_start() -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)})
    saved(attempt, CheckpointEvent.BEGIN, 100.0, stall_ns=101 * NANOSECONDS)
    assert attempt.checkpoints.by_step[9].stall_seconds is None
    saved(attempt, CheckpointEvent.BEGIN, 100.0, stall_ns=99 * NANOSECONDS)
    assert attempt.checkpoints.by_step[9].stall_seconds == 99.0


def test_impossible_sizes_and_durations_of_a_save_are_unknown() -> None:
    attempt = Attempt(0)
    hear(attempt, {Kind.RANK_STATE: state_rows(range(2), 2, 1.0)})
    huge = {"durable_ns": LARGEST, "bytes": LARGEST}
    saved(attempt, CheckpointEvent.WRITTEN, 100.0, **huge)
    checkpoint = attempt.checkpoints.by_step[9]
    assert (checkpoint.durable_seconds, checkpoint.size_bytes) == (2.0, 1000), (
        "what the other rank reported"
    )
    attempt.checkpoints.by_step.clear()
    rows = checkpoint_rows(CheckpointEvent.WRITTEN, [0], 9)
    for name, value in huge.items():
        rows[name] = value
    hear(attempt, {Kind.CHECKPOINT: rows})
    assert (
        attempt.checkpoints.by_step[9].durable_seconds,
        attempt.checkpoints.by_step[9].size_bytes,
    ) == (
        None,
        None,
    )


def test_an_impossible_stall_raises_no_incident(service: Service) -> None:
    for item in run_segments(12):
        service.receive(body([item]))
    rows = checkpoint_rows(CheckpointEvent.BEGIN, range(4), 9)
    rows["stall_ns"] = LARGEST
    service.receive(body([segment(99, {Kind.CHECKPOINT: rows})]))
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    assert [item.kind for item in job_state[1].open_incidents()] == []


def test_gaps_that_run_backwards_lose_nothing() -> None:
    attempt = Attempt(0)
    gaps = make_rows(Kind.GAP, 2, rank=0, first_seq=[10, 2**64 - 1], last_seq=[14, 0])
    hear(attempt, {Kind.GAP: gaps})
    assert attempt.tracker(Agents).lost_records == 5


def test_windows_of_many_attempts_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, evidence = MemoryHistory(), RankEvidence()
    memory.resize(4)
    evidence.resize(4)
    claims = 4 + 1
    tables = {
        Kind.RANK_STATE: state_rows(range(4), 4, 1.0),
        Kind.STEP: step_rows(range(5), range(4)),
    }
    one = LiveJob(JOB)
    one.apply(segment(1, tables), Received(0.0, 0.0))
    curves = one.current.tracker(Metrics).cells
    ranks = one.current.tracker(RankHistory).cells
    attempt_cells = (512 + BASELINE_STEPS) * 4 + memory.cells + evidence.cells + claims + curves
    attempt_cells += ranks
    monkeypatch.setattr(jobs, "MAX_JOB_CELLS", 3 * attempt_cells + 3 * curves)  # these stay
    job = LiveJob(JOB)
    for number in range(6):
        job.apply(segment(1, tables, attempt=number), Received(0.0, 0.0))
    assert job.cells <= jobs.MAX_JOB_CELLS
    assert [attempt.steps.ring.world for attempt in job.attempts.values()] == [0, 0, 0, 4, 4, 4]
    assert all(len(attempt.steps.history) == 5 for attempt in job.attempts.values())


def test_many_nodes_and_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "MAX_NODES", 10)
    monkeypatch.setattr(jobs, "MAX_ATTEMPTS", 10)
    job = LiveJob(JOB)
    for number in range(30):
        host: dict[Kind, Rows] = {Kind.HOST: make_rows(Kind.HOST, 1)}
        host_segment: Segment = segment(1, host, node=f"node-{number}", attempt=0)
        job.apply(host_segment, Received(0.0, 0.0))
        job.apply(segment(1, host, attempt=100 + number), Received(0.0, 0.0))
    assert len(job.attempts) == 10
    assert max(len(attempt.tracker(NodeFacts).hosts) for attempt in job.attempts.values()) <= 10


def test_store_takes_the_largest_numbers(store: Store, clock: HandClock, tmp_path: Path) -> None:
    service = Service(store, clock)
    odd = segment(2**63 - 1, {Kind.STEP: step_rows([2**32 - 1], [2**31 - 1])}, attempt=2**32 - 1)
    odd.tables[Kind.STEP]["duration_ns"] = 2**64 - 1
    assert [item.verdict for item in service.receive(body([odd]))] == ["accepted"]
    service.evaluate()
    assert service.evaluation_failures == 0
