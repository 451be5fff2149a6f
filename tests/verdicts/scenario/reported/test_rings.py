from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Kind, Op
from tests.verdicts.scenario.course.exits import exits_of
from tests.verdicts.scenario.course.program import MICROBATCHES
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.examples import JOB, with_fault
from tests.verdicts.scenario.plan import FaultKind, Pauses, Scenario, Shape, Telemetry

from .segments import Agents


def sent_rows(scenario: Scenario, every: int, kind: Kind) -> Iterator[Rows]:
    """Yield the rows of a kind, by delivery."""
    agents = Agents(scenario, Timeline(scenario), exits_of(scenario), 10**18)
    for _, body in agents.deliveries(every):
        for segment in map(wire.decode, wire.split(body)):
            if kind in segment.tables:
                yield segment.tables[kind]


def rows_of(scenario: Scenario, every: int, kind: Kind) -> Rows:
    """Return all rows of a kind, ordered by rank and ring."""
    return np.sort(np.concatenate(list(sent_rows(scenario, every, kind))), order=["rank", "seq"])


@pytest.mark.parametrize("shape", Shape)
def test_what_is_sent_at_once_is_what_would_be_sent_each_second(shape: Shape) -> None:
    scenario = replace(JOB, shape=shape, seconds=40.0, saves=Pauses(9, 1.0))
    for kind in (Kind.STEP, Kind.COLLECTIVE, Kind.CHECKPOINT):
        often, seldom = (rows_of(scenario, every, kind) for every in (1, 5))
        early_rows = [rows[rows["step"] < 30] for rows in (often, seldom)]
        assert len(early_rows[0]) >= 24
        np.testing.assert_array_equal(early_rows[0], early_rows[1])


def test_a_rank_that_ends_writes_nothing_of_the_step_it_does_not_end() -> None:
    rows = rows_of(replace(with_fault(FaultKind.KILL, 3), seconds=60.0), 1, Kind.STEP)
    ended = [rows["step"][rows["rank"] == rank].max() for rank in range(4)]
    assert max(ended) < 60
    assert ended[3] <= min(ended)


def test_neighbours_in_a_pipeline_send_and_receive_and_the_ends_have_one_neighbour() -> None:
    rows = rows_of(replace(JOB, shape=Shape.PIPELINE, seconds=20.0), 1, Kind.COLLECTIVE)
    third = rows[rows["step"] == 3]
    sends = [np.sum((third["rank"] == rank) & (third["op"] == Op.SEND)) for rank in range(4)]
    assert sends == [1, 2, 2, 1]
    assert set(third["count"].tolist()) == {MICROBATCHES}
    assert (third["exposed_ns"] < 10**9).all()


def test_what_a_late_node_sends_is_as_old_as_it_is_late() -> None:
    telemetry = Telemetry(late_node=1, late_seconds=6.0)
    scenario = replace(JOB, seconds=30.0, telemetry=telemetry)
    for every in (1, 5):
        states = rows_of(scenario, every, Kind.RANK_STATE)
        newest = [states["time_ns"][states["rank"] == rank].max() / 1e9 for rank in (0, 2)]
        assert newest[0] - newest[1] == pytest.approx(6.0, abs=1.0)
