"""Stages: busy, bubble, imbalance, and which one sets the pace."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.analysis import pipeline_stages as module
from stepwatch.collector.analysis.pipeline_stages import known_stages, pipeline
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.signals.records import StepFlag
from tests.collector.detect.windows import settle, window


def unequal(factor: float = 1.5) -> Window:
    """Four stages of two ranks; stage 2 has `factor` times the layers."""
    step_window = window(12, 8, stages=4)
    for phase in ("forward", "backward"):
        step_window.planes[phase][:, 4:6] *= factor
    settle(step_window)
    step_window.planes["pipeline_wait"][:], step_window.planes["collective"][:] = (
        step_window.planes["collective"],
        0.0,
    )
    return step_window


def test_the_slowest_stage_limits() -> None:
    pipeline_use = pipeline(unequal())
    assert pipeline_use is not None
    assert (pipeline_use.limiting_stage, pipeline_use.limiting_ratio) == (2, 1.0)
    assert pipeline_use.imbalance_ratio == pytest.approx(1.5 / (4.5 / 4))
    assert [stage.ranks for stage in pipeline_use.stages] == [2] * 4
    assert [stage.work_seconds for stage in pipeline_use.stages] == pytest.approx(
        [0.65, 0.65, 0.975, 0.65]
    )
    for stage in pipeline_use.stages:
        assert stage.busy_ratio + stage.bubble_ratio == pytest.approx(1.0)
        assert stage.bubble_ratio == pytest.approx(stage.pipeline_wait_ratio, abs=1e-6)
    assert min(pipeline_use.stages, key=lambda stage: stage.bubble_ratio).stage == 2


def test_pauses_are_no_bubble() -> None:
    step_window = unequal()
    without_pauses = pipeline(step_window)
    step_window.planes["checkpoint"][3] += 20.0
    step_window.planes["duration"][3] += 20.0
    with_pauses = pipeline(step_window)
    assert without_pauses is not None and with_pauses is not None
    ratios = [[stage.bubble_ratio for stage in use.stages] for use in (without_pauses, with_pauses)]
    assert ratios[1] == pytest.approx(ratios[0], rel=1e-5)


def test_a_balanced_pipeline_names_its_noise_as_such() -> None:
    pipeline_use = pipeline(window(64, 8, stages=4, noise=0.05))
    assert pipeline_use is not None
    assert pipeline_use.imbalance_ratio == pytest.approx(1.0, abs=0.03)
    assert pipeline_use.limiting_ratio is not None and pipeline_use.limiting_ratio < 0.6


@pytest.mark.parametrize("spoil", ["stages", "unknown", "incomplete", "first", "many"])
def test_unknown(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step_window = unequal()
    if spoil == "stages":
        step_window.stage[:] = 0
    elif spoil == "unknown":
        step_window.stage[3] = -1
    elif spoil == "incomplete":
        step_window.planes["duration"][:, 1] = np.nan
    elif spoil == "many":
        monkeypatch.setattr(module, "MAX_STAGES", 3)
    else:
        step_window.flags[:, 0] = StepFlag.FIRST
    assert pipeline(step_window) is None


def test_known_stages_follow_the_arrangement() -> None:
    step_window = window(5, 4, stages=2)
    known_stages(step_window).append(7)
    assert known_stages(step_window) == [0, 1], "nobody writes into what others are given"
    step_window.stage[:] = [3, 1, 1, 2]
    assert known_stages(step_window) == [1, 2, 3]
    step_window.stage[0] = -1
    assert known_stages(step_window) == []


def test_stages_that_never_worked_limit_nothing() -> None:
    step_window = window(5, 4, stages=2)
    for plane in step_window.planes.values():
        plane[:] = 0.0
    pipeline_use = pipeline(step_window)
    assert pipeline_use is not None
    assert (pipeline_use.limiting_stage, pipeline_use.imbalance_ratio) == (None, None)
