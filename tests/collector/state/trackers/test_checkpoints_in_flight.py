"""Checkpoints in flight: which ranks are still in one, which wait, and what is reported."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.trackers.checkpoints_in_flight import MAX_SAVES, CheckpointsInFlight
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import CheckpointEvent, Kind, Phase
from stepwatch.signals.wire import Rows
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    run_segments,
    segment,
    state_rows,
)

RANKS = range(4)
SLOW = 2


def facts(event: CheckpointEvent, step: int, time_s: float, stall: float = 0.0) -> Rows:
    """CHECKPOINT rows of all ranks at run time `at`."""
    rows = checkpoint_rows(event, RANKS, step)
    rows["time_ns"], rows["stall_ns"] = round(time_s * NANOSECONDS), round(stall * NANOSECONDS)
    return rows


def inside(time_s: float, step: int, since: float) -> Rows:
    """All ranks stand in a save; all but `SLOW` wait in a collective since run time `since`."""
    rows = state_rows(RANKS, 4, time_s, step, moved_ago=time_s - since)
    rows["phase"] = Phase.CHECKPOINT
    waits = rows["rank"] != SLOW
    rows["in_collective"][waits] = 1
    rows["collective_since_ns"][waits] = round(since * NANOSECONDS)
    return rows


def job(service: Service) -> LiveJob:
    job_state = service.job(JOB)
    assert job_state is not None
    return job_state[0]


def reported_incidents(service: Service) -> list[tuple[str, int]]:
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    return [(item.kind.value, item.rank) for item in job_state[1].findings]


def test_a_stall_is_said_while_the_job_stands_still_and_once(
    service: Service, clock: HandClock
) -> None:
    segments = run_segments(40)
    clock.monotonic, clock.wall = 8.0, clock.wall - 52.0
    for second, item in enumerate(segments, 1):
        begins = (
            [] if second % 2 else [facts(CheckpointEvent.BEGIN, 5 * second, float(second), 0.1)]
        )
        tables = {**item.tables, **({Kind.CHECKPOINT: begins[0]} if begins else {})}
        service.receive(body([item._replace(tables=tables)]))
    assert reported_incidents(service) == []
    begin = {Kind.CHECKPOINT: facts(CheckpointEvent.BEGIN, 45, 8.1)}
    service.receive(body([segment(20, {**begin, Kind.RANK_STATE: inside(9.0, 40, 8.2)})]))
    clock.advance(1.0)
    assert reported_incidents(service) == []
    for number in range(4):
        clock.advance(1.0)
        states = inside(10.0 + number, 40, 8.2)
        service.receive(body([segment(21 + number, {Kind.RANK_STATE: states})]))
    assert reported_incidents(service) == [("checkpoint-stall", SLOW)]
    ended = {Kind.CHECKPOINT: facts(CheckpointEvent.BEGIN, 45, 14.0, 5.9)}
    service.receive(body([segment(30, {**ended, Kind.RANK_STATE: state_rows(RANKS, 4, 14.0, 40)})]))
    clock.advance(1.0)
    assert reported_incidents(service) == [("checkpoint-stall", SLOW)]
    job_state = service.job(JOB)
    assert job_state is not None
    (incident,) = job_state[1].incidents.values()
    assert (incident.rank, incident.phase, incident.cause) == (SLOW, "checkpoint", "slow-storage")


def test_a_failure_is_said_until_a_save_succeeds(service: Service, clock: HandClock) -> None:
    for item in run_segments(40):
        service.receive(body([item]))
    service.receive(
        body(
            [
                segment(20, {Kind.CHECKPOINT: facts(CheckpointEvent.BEGIN, 20, 5.0, 0.1)}),
                segment(21, {Kind.CHECKPOINT: facts(CheckpointEvent.FAILED, 20, 6.0)}),
            ]
        )
    )
    assert reported_incidents(service) == [("checkpoint-stall", -1)]
    service.receive(
        body([segment(22, {Kind.CHECKPOINT: facts(CheckpointEvent.BEGIN, 30, 7.0, 0.1)})])
    )
    clock.advance(1.0)
    assert reported_incidents(service) == []


def test_a_bad_checkpoint_found_at_the_resume_is_no_save(service: Service) -> None:
    for item in run_segments(20):
        service.receive(body([item]))
    service.receive(
        body([segment(20, {Kind.CHECKPOINT: facts(CheckpointEvent.REJECTED, 20, 5.0)})])
    )
    assert reported_incidents(service) == []
    assert job(service).current.checkpoints.in_flight.newest == {}


def test_saves_are_bounded_and_ranks_out_of_range_are_left_out() -> None:
    saves = CheckpointsInFlight()
    for step in range(10):
        saves.add(facts(CheckpointEvent.BEGIN, step, 1.0 + step, 0.1), 4, 0)
    assert list(saves.newest) == list(range(10 - MAX_SAVES, 10))
    rows = facts(CheckpointEvent.BEGIN, 20, 20.0)
    rows["rank"] = [-1, 4, 1 << 30, 2]
    saves.add(rows, 4, 0)
    assert (saves.newest[20].began_ns > 0).tolist() == [False, False, True, False]
    states = inside(25.0, 20, 21.0)
    states["rank"] = [-1, 4, 2, 1]
    saves.add_states(states)
    assert np.isnan(saves.newest[20].self_seconds).tolist() == [True, True, False, True]
    assert saves.newest[20].in_progress
