"""Stages that are slow now and then are found, however many share a node; noise is nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect.rare_stages import RareStage, find_rare
from stepwatch.collector.state.evidence.step_window import Window
from tests.collector.detect.windows import settle, window

STEPS = 256


def varied_window(stages: int = 4, seed: int = 0, **more: Any) -> Window:
    """Two ranks in each stage, of which each has its own amount of work, and sequences that are
    longer for all."""
    dice = np.random.default_rng(seed)
    step_window = window(STEPS, 2 * stages, stages, noise=0.03, seed=seed, **more)
    length = dice.choice([0.75, 1.6], (STEPS, 1)) * (1.0 + step_window.stage / 4)
    for phase in ("forward", "backward"):
        step_window.planes[phase][:] *= length.astype(np.float32)
    settle(step_window)
    return step_window


def slow(step_window: Window, stages: list[int], period: int, times: float) -> list[RareStage]:
    """What is found where all ranks of some stages take `times` as long every `period` steps."""
    for rank in np.flatnonzero(np.isin(step_window.stage, stages)).tolist():
        for phase in ("forward", "backward"):
            step_window.planes[phase][20::period, rank] *= times
    settle(step_window)
    return find_rare(step_window)


@pytest.mark.parametrize(("stages", "slow_stages"), [(4, [2]), (4, [0, 1]), (2, [1]), (3, [0])])
def test_stages_that_are_slow_in_one_step_of_ten_are_found(
    stages: int, slow_stages: list[int]
) -> None:
    rare_stages = slow(varied_window(stages), slow_stages, 10, 3.0)
    assert sorted(rare_stage.stage for rare_stage in rare_stages) == slow_stages
    assert all(rare_stage.phase == "backward" for rare_stage in rare_stages)
    assert rare_stages[0].hits.tolist() == list(range(20, STEPS, 10))
    assert 0.05 < rare_stages[0].lost < 0.3


def test_a_stage_that_is_slow_by_half_as_much_in_the_same_steps_is_named_with_it() -> None:
    """One node's stages are one incident, though one of them is not beyond chance by itself."""
    assert slow(varied_window(), [1], 10, 1.45) == []
    step_window = varied_window()
    assert [stage.stage for stage in slow(step_window, [0], 10, 1.8)] == [0]
    assert {stage.stage for stage in slow(step_window, [1], 10, 1.45)} == {0, 1}


def test_what_has_ended_is_not_found() -> None:
    later = varied_window()
    assert slow(later.select(np.arange(STEPS)), [2], 10, 3.0)
    healthy = varied_window()
    for phase in ("forward", "backward"):
        later.planes[phase][100:] = healthy.planes[phase][100:]
    settle(later)
    assert find_rare(later) == []


def test_of_two_stages_that_are_long_now_and_then_the_one_that_happened_to_be_is_not_found() -> (
    None
):
    """Each in four steps of 512, so one has eight and the other none in it every other day."""
    step_window = window(512, 2, 2, noise=0.03)
    step_window.planes["data"][20::64, 1] += 0.9
    settle(step_window)
    assert find_rare(step_window) == []
    step_window.planes["data"][20::44, 1] += 0.9
    settle(step_window)
    assert [rare_stage.stage for rare_stage in find_rare(step_window)] == [1]


@pytest.mark.parametrize("stages", [2, 4])
def test_heavy_tails_of_all_stages_are_nothing(stages: int) -> None:
    for seed in range(200):
        step_window = varied_window(stages, seed)
        dice = np.random.default_rng(1000 + seed)
        for phase in ("forward", "backward"):
            shape = step_window.planes[phase].shape
            tail = np.minimum(1.0 + dice.pareto(2.0, shape), 8.0)
            step_window.planes[phase][:] *= np.where(dice.random(shape) < 0.02, tail, 1.0)
        assert find_rare(step_window) == [], seed


def test_a_stage_that_is_slower_for_good_is_not_slow_now_and_then() -> None:
    assert slow(varied_window(), [2], 1, 2.0) == []
