"""Stages: busy, bubble, imbalance, and which one sets the pace."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.analysis import pipeline_stages as module
from stepwatch.collector.analysis.pipeline_stages import known_stages, pipeline
from stepwatch.collector.state.trackers.steps.step_window import Window
from stepwatch.signals.records import StepFlag
from tests.collector.detect.windows import settle, window


def unequal(factor: float = 1.5) -> Window:
    """Four stages of two ranks; stage 2 has `factor` times the layers."""
    made = window(12, 8, stages=4)
    for phase in ("forward", "backward"):
        made.planes[phase][:, 4:6] *= factor
    settle(made)
    made.planes["pipeline_wait"][:], made.planes["collective"][:] = made.planes["collective"], 0.0
    return made


def test_the_slowest_stage_limits() -> None:
    found = pipeline(unequal())
    assert found is not None
    assert (found.limiting_stage, found.limiting_ratio) == (2, 1.0)
    assert found.imbalance_ratio == pytest.approx(1.5 / (4.5 / 4))
    assert [stage.ranks for stage in found.stages] == [2] * 4
    assert [stage.work_seconds for stage in found.stages] == pytest.approx(
        [0.65, 0.65, 0.975, 0.65]
    )
    for stage in found.stages:
        assert stage.busy_ratio + stage.bubble_ratio == pytest.approx(1.0)
        assert stage.bubble_ratio == pytest.approx(stage.pipeline_wait_ratio, abs=1e-6)
    assert min(found.stages, key=lambda stage: stage.bubble_ratio).stage == 2


def test_pauses_are_no_bubble() -> None:
    made = unequal()
    before = pipeline(made)
    made.planes["checkpoint"][3] += 20.0
    made.planes["duration"][3] += 20.0
    after = pipeline(made)
    assert before is not None and after is not None
    ratios = [[stage.bubble_ratio for stage in each.stages] for each in (before, after)]
    assert ratios[1] == pytest.approx(ratios[0], rel=1e-5)


def test_a_balanced_pipeline_names_its_noise_as_such() -> None:
    found = pipeline(window(64, 8, stages=4, noise=0.05))
    assert found is not None
    assert found.imbalance_ratio == pytest.approx(1.0, abs=0.03)
    assert found.limiting_ratio is not None and found.limiting_ratio < 0.6


@pytest.mark.parametrize("spoil", ["stages", "unknown", "incomplete", "first", "many"])
def test_unknown(spoil: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = unequal()
    if spoil == "stages":
        made.stage[:] = 0
    elif spoil == "unknown":
        made.stage[3] = -1
    elif spoil == "incomplete":
        made.planes["duration"][:, 1] = np.nan
    elif spoil == "many":
        monkeypatch.setattr(module, "MAX_STAGES", 3)
    else:
        made.flags[:, 0] = StepFlag.FIRST
    assert pipeline(made) is None


def test_known_stages_follow_the_arrangement() -> None:
    made = window(5, 4, stages=2)
    known_stages(made).append(7)
    assert known_stages(made) == [0, 1], "nobody writes into what others are given"
    made.stage[:] = [3, 1, 1, 2]
    assert known_stages(made) == [1, 2, 3]
    made.stage[0] = -1
    assert known_stages(made) == []


def test_stages_that_never_worked_limit_nothing() -> None:
    made = window(5, 4, stages=2)
    for plane in made.planes.values():
        plane[:] = 0.0
    found = pipeline(made)
    assert found is not None
    assert (found.limiting_stage, found.imbalance_ratio) == (None, None)
