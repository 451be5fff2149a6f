"""Layers on stages, stages on ranks, and the ideal bubble of a schedule."""

from __future__ import annotations

import pytest

from stepwatch.trainer.config.placement import (
    STAGES_PER_RANK,
    ideal_bubble,
    layers_of_stage,
    stage_count,
    stages_of_rank,
)


@pytest.mark.parametrize("schedule", STAGES_PER_RANK)
@pytest.mark.parametrize("pp", [1, 2, 4])
def test_every_stage_and_every_layer_is_placed_once(schedule: str, pp: int) -> None:
    count = stage_count(schedule, pp)
    stages = [stage for rank in range(pp) for stage in stages_of_rank(schedule, pp, rank)]
    assert sorted(stages) == list(range(count))
    layers = [layer for stage in range(count) for layer in layers_of_stage(16, count, stage)]
    assert layers == list(range(16))


def test_zbv_puts_the_first_and_the_last_stage_on_one_rank() -> None:
    assert [stages_of_rank("zbv", 2, rank) for rank in range(2)] == [[0, 3], [1, 2]]


def test_the_ideal_bubble_is_the_known_formula() -> None:
    assert ideal_bubble("1f1b", 4, 8) == pytest.approx(3 / 11)
    assert ideal_bubble("interleaved", 4, 8) == pytest.approx(3 / 19)
    assert ideal_bubble("gpipe", 1, 1) == 0.0
