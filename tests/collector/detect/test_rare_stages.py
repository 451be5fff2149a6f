"""Stages that are slow now and then are found, however many share a node; noise is nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect.rare_stages import RareStage, find_rare
from stepwatch.collector.state.trackers.steps.step_window import Window
from tests.collector.detect.windows import settle, window

STEPS = 256


def made(stages: int = 4, seed: int = 0, **more: Any) -> Window:
    """Two ranks in each stage, of which each has its own amount of work, and sequences that are
    longer for all."""
    dice = np.random.default_rng(seed)
    found = window(STEPS, 2 * stages, stages, noise=0.03, seed=seed, **more)
    length = dice.choice([0.75, 1.6], (STEPS, 1)) * (1.0 + found.stage / 4)
    for phase in ("forward", "backward"):
        found.planes[phase][:] *= length.astype(np.float32)
    settle(found)
    return found


def slow(found: Window, stages: list[int], period: int, times: float) -> list[RareStage]:
    """What is found where all ranks of some stages take `times` as long every `period` steps."""
    for rank in np.flatnonzero(np.isin(found.stage, stages)).tolist():
        for phase in ("forward", "backward"):
            found.planes[phase][20::period, rank] *= times
    settle(found)
    return find_rare(found)


@pytest.mark.parametrize(("stages", "which"), [(4, [2]), (4, [0, 1]), (2, [1]), (3, [0])])
def test_stages_that_are_slow_in_one_step_of_ten_are_found(stages: int, which: list[int]) -> None:
    found = slow(made(stages), which, 10, 3.0)
    assert sorted(each.stage for each in found) == which
    assert all(each.phase == "backward" for each in found)
    assert found[0].hits.tolist() == list(range(20, STEPS, 10))
    assert 0.05 < found[0].lost < 0.3


def test_what_has_ended_is_not_found() -> None:
    later = made()
    assert slow(later.at(np.arange(STEPS)), [2], 10, 3.0)
    healthy = made()
    for phase in ("forward", "backward"):
        later.planes[phase][100:] = healthy.planes[phase][100:]
    settle(later)
    assert find_rare(later) == []


def test_of_two_stages_that_are_long_now_and_then_the_one_that_happened_to_be_is_not_found() -> (
    None
):
    """Each in four steps of 512, so one has eight and the other none in it every other day."""
    found = window(512, 2, 2, noise=0.03)
    found.planes["data"][20::64, 1] += 0.9
    settle(found)
    assert find_rare(found) == []
    found.planes["data"][20::44, 1] += 0.9
    settle(found)
    assert [each.stage for each in find_rare(found)] == [1]


@pytest.mark.parametrize("stages", [2, 4])
def test_heavy_tails_of_all_stages_are_nothing(stages: int) -> None:
    for seed in range(200):
        found = made(stages, seed)
        dice = np.random.default_rng(1000 + seed)
        for phase in ("forward", "backward"):
            shape = found.planes[phase].shape
            tail = np.minimum(1.0 + dice.pareto(2.0, shape), 8.0)
            found.planes[phase][:] *= np.where(dice.random(shape) < 0.02, tail, 1.0)
        assert find_rare(found) == [], seed


def test_a_stage_that_is_slower_for_good_is_not_slow_now_and_then() -> None:
    assert slow(made(), [2], 1, 2.0) == []
