"""Partners that work on the same sequences hide each other, so one alone is not called slow."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.straggler.evidence.costly import CostlyRank, Share
from stepwatch.collector.detect.straggler.evidence.partners import Partners, without_partners
from stepwatch.collector.state.trackers.baseline import BaselineCollective
from stepwatch.collector.state.trackers.collective_records import Group
from stepwatch.collector.state.trackers.step_window import Window
from tests.collector.detect.windows import slow, window

GROUPS = {1: "0-7", 2: "0,1", 3: "2,3", 4: "4,5", 5: "6,7", 6: "0,2,4,6", 7: "1,3,5,7"}
OFTEN = {1: 1.0, 2: 24.0, 3: 24.0, 4: 24.0, 5: 24.0, 6: 3.0, 7: 3.0}


def pairs(*, alike: bool = True, steps: int = 64, stages: int = 1) -> Window:
    """Eight ranks, of which two each meet most often; they share their lengths, or do not."""
    dice = np.random.default_rng(7)
    made = window(steps, 8, stages=stages, noise=0.02)
    length = dice.choice([0.75, 1.6], (steps, 8)).astype(np.float32)
    if alike:
        length = length[:, [0, 0, 2, 2, 4, 4, 6, 6]]
    for phase in ("forward", "backward"):
        made.planes[phase][:] *= length
    return made


def partners(made: Window, unobserved: tuple[int, ...] = ()) -> Partners:
    groups = {number: Group(text.count(",") + 1, text) for number, text in GROUPS.items()}
    calls = {(number, 1): BaselineCollective(0.01, 1e6, times) for number, times in OFTEN.items()}
    made.planes["duration"][:, list(unobserved)] = np.nan
    return Partners(made, calls, groups, unobserved)


def costly(rank: int, node: int = -1) -> CostlyRank:
    return CostlyRank(rank, "backward", Share(0.1, 0.08, 0.12), 0.1, 0, (0, 1), 20.0, node=node)


def test_a_rank_is_left_alone_where_its_partner_is_named_or_not_observed() -> None:
    assert partners(pairs()).leave_alone(1, [0])
    assert partners(pairs(), (0,)).leave_alone(1, [])


def test_any_other_rank_is_not() -> None:
    """Rank 2 meets rank 0 as well, but less often."""
    assert not partners(pairs()).leave_alone(1, [])
    assert not any(partners(pairs()).leave_alone(rank, [0]) for rank in range(2, 8))
    assert not any(partners(pairs(), (0,)).leave_alone(rank, []) for rank in range(2, 8))


def test_members_that_differ_as_much_as_others_hide_nobody() -> None:
    """Ranks of a node that shards its parameters within itself meet often, too."""
    made = pairs(alike=False)
    slow(made, 1, "backward", 0.3, since=0)
    assert not partners(made).leave_alone(1, [0])


def test_of_a_pair_that_is_a_whole_stage_each_is_the_other_ones_only_peer() -> None:
    assert not partners(pairs(stages=4)).leave_alone(1, [0])


@pytest.mark.parametrize("number", [2, 9])
def test_groups_that_are_not_known_say_nothing(number: int) -> None:
    made = pairs()
    known = Partners(made, {(number, 1): BaselineCollective(0.1, 1.0, 9.0)}, {2: Group(2, "0,...")})
    assert not known.leave_alone(1, [0])


def test_of_what_is_hidden_only_the_costliest_is_named() -> None:
    found = without_partners([costly(0), costly(1), costly(4)], partners(pairs()))
    assert [each.rank for each in found] == [0, 4]


def test_a_slow_node_is_named_whoever_else_is() -> None:
    found = without_partners([costly(0), costly(1, node=0)], partners(pairs()))
    assert [each.rank for each in found] == [0, 1]


def test_while_too_few_steps_are_known_nobody_is_named_beside_its_partner() -> None:
    assert partners(pairs(steps=8)).leave_alone(1, [0])
