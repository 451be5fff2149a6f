"""The JSON result: the whole run, and the speed of the last attempt."""

from __future__ import annotations

import pytest

from stepwatch.trainer.run.result import attempt_speed, finite_or_none, run_summary
from tests.trainer.run.conftest import OpenHistory, step_line


def test_the_result_covers_the_whole_run(open_history: OpenHistory) -> None:
    history = open_history(3)
    history.append(step_line(3, loss=float("nan")))
    result = run_summary(history)
    assert result["losses"] == [2.0, 2.0, 2.0, None]
    assert (result["loss_first"], result["loss_last"]) == (2.0, None)
    assert result["checkpoints"] == result["evaluations"] == result["resumes"] == []


def test_speed_leaves_the_first_step_out() -> None:
    lines = [step_line(0, seconds=60.0), *(step_line(step, seconds=0.5) for step in range(1, 5))]
    speed = attempt_speed(lines, 1000)
    assert speed["tokens_per_second"] == pytest.approx(2000.0)
    assert speed["step_seconds"] == {"p50": 0.5, "p95": 0.5, "p99": 0.5}
    assert attempt_speed([], 1000)["tokens_per_second"] is None
    assert finite_or_none(float("inf")) is None
