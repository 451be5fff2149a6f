"""Chains of ranks that exchange tensors are pipelines; anything else is left unknown."""

from __future__ import annotations

import pytest

from stepwatch.collector.state.trackers.communication.neighbours import stages_of


@pytest.mark.parametrize(
    ("pairs", "world", "stages"),
    [
        ([(0, 1)], 2, [0, 1]),
        ([(0, 2), (1, 3)], 4, [0, 0, 1, 1]),
        ([(2, 3), (0, 1)], 4, [0, 1, 0, 1]),
        ([(1, 2), (0, 1), (2, 3)], 4, [0, 1, 2, 3]),
        ([(0, 4), (4, 2), (1, 5), (5, 3)], 6, [0, 0, 2, 2, 1, 1]),
    ],
)
def test_a_rank_s_stage_is_its_place_in_its_chain(
    pairs: list[tuple[int, int]], world: int, stages: list[int]
) -> None:
    stage_numbers = stages_of(pairs, world)
    assert stage_numbers is not None and stage_numbers.tolist() == stages


@pytest.mark.parametrize(
    ("pairs", "world"),
    [
        ([], 2),
        ([(0, 1)], 3),  # one rank exchanges with nobody
        ([(0, 1), (1, 2), (0, 2)], 3),  # a ring
        ([(0, 1), (2, 3), (3, 4)], 5),  # chains of two lengths
        ([(0, 1), (0, 2), (0, 3)], 4),  # one that gives to all
        ([(0, 1), (2, 3), (3, 4), (4, 2)], 5),  # a chain and a ring
    ],
)
def test_no_pipeline_is_made_of_other_patterns(pairs: list[tuple[int, int]], world: int) -> None:
    assert stages_of(pairs, world) is None
