"""The first step of a run, on one rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.trainer.parallel.runtime import Runtime
from stepwatch.trainer.run.history import History
from stepwatch.trainer.run.resume import start_at
from tests.trainer.run.conftest import OpenHistory


def _steps(history: History | None) -> list[int]:
    assert history is not None
    history.close()
    return [line.step for line in history.steps]


def test_a_first_attempt_starts_without_a_resume(
    tmp_path: Path, runtime: Runtime, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = start_at(0, tmp_path, runtime, watch, restart=False)
    assert (start.first, _steps(start.history)) == (0, [])
    assert "resumed" not in capsys.readouterr().err


def test_a_resume_reports_the_lost_steps(
    open_history: OpenHistory,
    tmp_path: Path,
    runtime: Runtime,
    watch: Watch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    open_history(7)
    start = start_at(4, tmp_path, runtime, watch, restart=False)
    assert _steps(start.history) == [0, 1, 2, 3]
    assert "resumed from step 4: 3 steps lost" in capsys.readouterr().err


def test_a_restart_without_a_checkpoint_is_a_resume_from_step_0(
    open_history: OpenHistory, tmp_path: Path, runtime: Runtime, watch: Watch
) -> None:
    open_history(3)
    start = start_at(0, tmp_path, runtime, watch, restart=False)
    assert start.history is not None
    assert [(line.from_step, line.steps_lost) for line in start.history.resumes] == [(0, 3)]
    assert _steps(start.history) == []


def test_a_new_start_drops_the_history(
    open_history: OpenHistory, tmp_path: Path, runtime: Runtime, watch: Watch
) -> None:
    open_history(3)
    start = start_at(0, tmp_path, runtime, watch, restart=True)
    assert start.history is not None
    assert start.history.resumes == []
    assert _steps(start.history) == []
