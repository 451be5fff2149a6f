"""Memory follows ranks that are seen; what came before enough of them were seen is not lost."""

from __future__ import annotations

import tracemalloc

import pytest

from stepwatch.collector.state.claims import waiting
from stepwatch.collector.state.folding.batches import BATCH_BYTES
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import CELL_BYTES, MAX_WORLD, Received
from stepwatch.signals import wire
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows, Segment
from tests.collector.histories import differences
from tests.collector.made import (
    JOB,
    device_step_rows,
    lifecycle_rows,
    segment,
    state_rows,
    step_rows,
)

NOW = Received(0.0, 0.0)
EACH = 8
"""Ranks of a node."""


def forged(world: int = MAX_WORLD, job: str = JOB, attempt: int = 0) -> Segment:
    """One rank claims that there are so many, and has rows of all that sizes something."""
    tables: dict[Kind, Rows] = {
        Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, [0], world),
        Kind.RANK_STATE: state_rows([0], world, 1.0),
        Kind.STEP: step_rows([0], [0]),
        Kind.DEVICE_STEP: device_step_rows([0], [0]),
    }
    return segment(1, tables, job, attempt)


@pytest.mark.parametrize("attempt", [0, 7])
def test_a_forged_world_takes_no_memory(attempt: int) -> None:
    sent = forged(attempt=attempt)
    assert len(wire.encode(sent)) < 400
    LiveJob("warm").apply(forged(4), NOW)
    job = LiveJob(JOB)
    if attempt:
        job.apply(forged(4), NOW)
    tracemalloc.start()
    job.apply(sent, NOW)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert job.cells < 100_000


def test_a_forged_world_does_not_grow_a_job_that_runs() -> None:
    job = LiveJob(JOB)
    job.apply(forged(4), NOW)
    cells_before = job.cells
    for node in ("node-0", "node-9"):
        rows = state_rows([0 if node == "node-0" else 3], MAX_WORLD, 2.0)
        job.apply(segment(2, {Kind.RANK_STATE: rows}, node=node), NOW)
    assert job.current.world == 4
    assert job.cells - cells_before < 10


def large_run(world: int) -> list[Segment]:
    """The first two segments of each node of a large job, all of the first ones before the rest."""
    segments = []
    for first in range(2):
        for node in range(world // EACH):
            ranks = range(node * EACH, (node + 1) * EACH)
            tables: dict[Kind, Rows] = {
                Kind.STEP: step_rows([first], ranks),
                Kind.RANK_STATE: state_rows(ranks, world, first + 1.0, first),
            }
            if not first:
                tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, ranks, world)
            segments.append(segment(first + 1, tables, node=f"node-{node}"))
    return segments


@pytest.mark.parametrize("every", [1, 5, 1000])
def test_what_came_before_enough_ranks_were_seen_is_not_lost(every: int) -> None:
    world = 512
    sent = large_run(world)
    job = LiveJob(JOB)
    for number, item in enumerate(sent, 1):
        job.append(item, NOW)
        if number % every == 0:
            job.fold()
        if number == 3 and every == 1:
            assert job.waits and job.current.world == 0
    job.fold()
    assert not job.waits
    assert job.current.steps.history.rows["reported"].tolist() == [world, world]
    assert (job.current.refused_records, job.totals.rows) == (0, 2 * world)
    expected = LiveJob(JOB)
    for item in sent:
        expected.apply(item, NOW)
    assert differences(job, expected) == []


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MAX_WAITING_BYTES", 1 << 20)
    count = 0
    job = LiveJob(JOB)
    for number in range(200):
        rows = step_rows(range(100), [0])
        count += len(rows)
        item = segment(number, {Kind.RANK_STATE: state_rows([0], MAX_WORLD, 1.0), Kind.STEP: rows})
        job.apply(item, NOW)
    queue = job.current.waiting
    assert queue.nbytes <= (1 << 20) + BATCH_BYTES * len(queue.batches)
    assert 0 < job.current.refused_records < count + 200
    assert job.cells * CELL_BYTES >= queue.nbytes - CELL_BYTES
