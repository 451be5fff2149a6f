"""A segment may hold thousands of readings of one rank: what they leave is as if each came alone,
and they take no turn each."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.folding import turns as turns_module
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers import memory_history, ranks
from stepwatch.collector.state.trackers.nodes import node_facts
from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.histories import differences
from tests.collector.made import JOB, segment, state_rows

NOW = Received(0.0, 0.0)
COUNT = 700


def readings(kind: Kind, most: float) -> Rows:
    """So many of rank 0, now and then of rank 1, up to `most` seconds apart."""
    random = np.random.default_rng(3)
    rows = make_rows(kind, COUNT)
    if kind is Kind.RANK_STATE:
        rows = np.repeat(state_rows([0], 2, 1.0), COUNT)
        rows["resident_bytes"] = random.integers(1, 1 << 30, COUNT)
        rows["cpu_seconds"], rows["run_queue_seconds"] = random.random((2, COUNT))
    else:
        rows["allocated_bytes"] = random.integers(1, 1 << 30, COUNT)
    rows["rank"] = random.random(COUNT) < 0.02
    rows["time_ns"] = np.cumsum(random.random(COUNT) * most * NANOSECONDS) + NANOSECONDS
    return rows


def began() -> LiveJob:
    job = LiveJob(JOB)
    job.apply(segment(1, {Kind.RANK_STATE: state_rows(range(2), 2, 0.5)}), NOW)
    return job


@pytest.mark.parametrize("kind", [Kind.RANK_STATE, Kind.MEMORY])
@pytest.mark.parametrize("most", [0.01, 1.0, 40.0])
def test_many_readings_of_a_rank_at_once_are_those_taken_alone(kind: Kind, most: float) -> None:
    rows = readings(kind, most)
    together, separate = began(), began()
    together.apply(segment(2, {kind: rows}), NOW)
    for first in range(0, COUNT, 20):
        separate.apply(segment(2, {kind: rows[first : first + 20]}), NOW)
    assert differences(together, separate) == []


@pytest.mark.parametrize("kind", [Kind.RANK_STATE, Kind.MEMORY])
def test_readings_of_one_rank_take_few_turns(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    turn_count = 0

    def counted(places: Integers) -> list[Integers]:
        nonlocal turn_count
        turns = list(turns_module.turns(places))
        turn_count += len(turns)
        return turns

    for module in (memory_history, ranks, node_facts):
        monkeypatch.setattr(module, "turns", counted)
    job = began()
    rows = np.repeat(readings(kind, 40.0), 10)
    rows["time_ns"] = np.arange(len(rows)) * 40 * NANOSECONDS
    rows["rank"] = 0
    turn_count = 0
    job.apply(segment(2, {kind: rows}), NOW)
    assert turn_count < 500 < len(rows)
