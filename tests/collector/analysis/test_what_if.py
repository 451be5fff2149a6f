"""What-if: known waste taken out gives back what it cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.analysis.pipeline_stages import complete_steps
from stepwatch.collector.analysis.step_time_breakdown import Exposed
from stepwatch.collector.analysis.what_if import (
    WITH_OVERLAP,
    WITHOUT_IMBALANCE,
    WITHOUT_STRAGGLERS,
    WhatIf,
    what_if,
)
from stepwatch.collector.state.evidence.step_window import Window
from tests.collector.detect.healthy import healthy
from tests.collector.detect.windows import settle, slow, window


def replay(step_window: Window, transfer: float = 0.0) -> dict[str, WhatIf]:
    shape = step_window.planes["duration"].shape
    split = Exposed(np.full(shape, transfer), np.zeros(shape))
    return {item.scenario: item for item in what_if(step_window, split)}


def test_without_its_straggler_the_job_is_as_fast_as_before() -> None:
    step_window = window(20, 8, stages=2)
    healthy = float(step_window.planes["duration"].mean())
    slow(step_window, 5, "forward", 0.4, since=0)
    scenario = replay(step_window)[WITHOUT_STRAGGLERS]
    assert scenario.step_seconds == pytest.approx(healthy + 0.4 * 0.05, rel=1e-5)
    assert scenario.device_hours == pytest.approx(0.4 * 20 * 8 / 3600, rel=1e-5)
    now = float(step_window.planes["duration"].mean())
    assert scenario.faster_ratio == pytest.approx(now / (now - 0.4) - 1, rel=1e-5)
    assert scenario.steps == 20


def test_a_slow_rank_on_a_stage_with_slack_costs_what_exceeds_the_other() -> None:
    step_window = window(10, 8, stages=2)
    for phase in ("forward", "backward"):
        step_window.planes[phase][:, :4] *= 1.5
    slow(step_window, 5, "forward", 0.3, since=0)
    assert replay(step_window)[WITHOUT_STRAGGLERS].faster_ratio == 0.0
    slow(step_window, 5, "forward", 0.125, since=0)
    assert replay(step_window)[WITHOUT_STRAGGLERS].device_hours == pytest.approx(
        0.1 * 80 / 3600, rel=1e-4
    )


def test_balanced_stages_work_as_long_as_their_mean() -> None:
    step_window = window(10, 8, stages=2)
    step_window.planes["backward"][:, 4:] += 0.2
    settle(step_window)
    scenarios = replay(step_window)
    assert scenarios[WITHOUT_IMBALANCE].device_hours == pytest.approx(0.1 * 80 / 3600, rel=1e-5)
    assert scenarios[WITHOUT_STRAGGLERS].faster_ratio == 0.0


def test_overlap_hides_the_transfer_of_the_rank_with_most_work() -> None:
    step_window = window(10, 4)
    step_window.planes["forward"][:, 1] += 0.1
    settle(step_window)
    transfer = np.zeros((10, 4))
    transfer[:, 1], transfer[:, 2] = 0.05, 7.0
    split = Exposed(transfer, np.zeros((10, 4)))
    scenarios = {item.scenario: item for item in what_if(step_window, split)}
    assert scenarios[WITH_OVERLAP].device_hours == pytest.approx(0.05 * 40 / 3600)
    transfer[2:5] = np.nan
    scenarios = {item.scenario: item for item in what_if(step_window, split)}
    assert scenarios[WITH_OVERLAP].steps == 7, "steps in which it is not known do not count"
    transfer[:8] = np.nan
    scenarios = {item.scenario: item for item in what_if(step_window, split)}
    assert scenarios[WITH_OVERLAP].faster_ratio is None


def test_unknown_is_left_out_or_none() -> None:
    assert replay(window(2, 4)) == {}
    assert WITHOUT_IMBALANCE not in replay(window(5, 4, stages=1))
    step_window = window(5, 4, stages=2)
    step_window.stage[0] = -1
    scenarios = replay(step_window)
    assert scenarios[WITHOUT_STRAGGLERS].device_hours is None and WITHOUT_IMBALANCE not in scenarios
    step_window.stage[:] = -1
    assert replay(step_window)[WITHOUT_STRAGGLERS].device_hours == 0.0


@pytest.mark.parametrize("kind", ["spiky", "pauses", "change"])
@pytest.mark.parametrize(("ranks", "stages"), [(2, 1), (4, 1), (8, 2), (64, 1)])
def test_a_healthy_run_gains_nothing(kind: str, ranks: int, stages: int) -> None:
    scenarios = replay(complete_steps(healthy(kind, ranks, stages, seed=3, steps=32)))
    assert scenarios[WITHOUT_STRAGGLERS].faster_ratio == 0.0
    if stages > 1:
        assert scenarios[WITHOUT_IMBALANCE].faster_ratio == 0.0


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_a_slow_rank_among_ranks_that_jitter_gains_what_exceeds_the_jitter(ranks: int) -> None:
    step_window = window(32, ranks, noise=0.1, seed=1)
    slow(step_window, 1, "forward", 0.4, since=0)
    now = float(step_window.planes["duration"].mean())
    faster = replay(step_window)[WITHOUT_STRAGGLERS].faster_ratio
    assert faster is not None and 0.1 < faster <= now / (now - 0.4) - 1


@given(st.integers(0, 1000), st.floats(0.0, 1.0), st.sampled_from([1, 2, 4]), st.floats(0.0, 2.0))
def test_no_scenario_is_slower_nor_saves_more_than_there_is(
    seed: int, noise: float, stages: int, transfer: float
) -> None:
    step_window = window(6, 8, stages=stages, noise=noise, seed=seed)
    spent = float(step_window.planes["duration"].sum(dtype=np.float64)) / 3600
    for item in replay(step_window, transfer).values():
        if item.device_hours is not None:
            assert item.faster_ratio is not None and item.faster_ratio >= 0
            assert 0 <= item.device_hours < spent
