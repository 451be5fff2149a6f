"""Stages that nobody named show in who sends to whom, step after step."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.folding.batches import Received
from stepwatch.collector.state.trackers.communication.exchanges import LEAST_STEPS
from stepwatch.collector.state.trackers.communication.neighbours import stages_of
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.records import Kind, Op, make_rows
from stepwatch.signals.wire import Rows, Segment, SegmentKey
from tests.collector.gathered import call_rows, group_rows

STEPS = range(LEAST_STEPS)


def attempt(*tables: Rows, stage: int = 0) -> Attempt:
    """Four ranks that the agent knows, and the rows of pairs 0-2 and 1-3."""
    states = make_rows(Kind.RANK_STATE, 4, rank=range(4), world=4, stage=[0, 0, stage, stage])
    groups = np.concatenate([group_rows(8, [0, 2]), group_rows(9, [1, 3])])
    attempt_state = Attempt(0)
    for number, rows in enumerate(tables):
        key = SegmentKey("job", 0, "node", 1, number)
        parts = {Kind.RANK_STATE: states, Kind.GROUP: groups, Kind.COLLECTIVE: rows}
        attempt_state.apply(Segment(key, ClockPair(0, 0), parts), Received(0.0, 0.0))
    return attempt_state


def sends(pair: int, ranks: tuple[int, ...], op: Op = Op.SEND) -> Rows:
    return call_rows(STEPS, dict.fromkeys(ranks, 0.0), group=pair, op=op)


def test_ranks_that_send_to_each_other_are_stages() -> None:
    attempt_state = attempt(sends(8, (0, 2)), sends(9, (1, 3)))
    assert attempt_state.stages.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "second",
    [
        sends(9, (1,)),
        sends(9, (1, 3), Op.ALL_REDUCE),
        sends(9, (1, 3))[:2],
    ],
    ids=["one way", "another operation", "once"],
)
def test_what_is_no_exchange_step_after_step_makes_no_stage(second: Rows) -> None:
    assert attempt(sends(8, (0, 2)), second).stages.tolist() == [0, 0, 0, 0]


def test_a_mesh_that_was_named_counts() -> None:
    named = attempt(sends(8, (0, 2)), sends(9, (1, 3)), stage=3)
    assert named.stages.tolist() == [0, 0, 3, 3]


def test_stages_of_a_smaller_world_are_forgotten_once_it_grows() -> None:
    attempt_state = attempt(sends(8, (0, 2)), sends(9, (1, 3)))
    attempt_state.grow(8)
    assert len(attempt_state.stages) == 8 and (attempt_state.stages <= 0).all()


def test_a_pair_with_a_rank_outside_the_world_shows_no_stage() -> None:
    assert stages_of([(2, 3)], 2) is None
