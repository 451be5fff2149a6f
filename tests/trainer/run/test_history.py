"""The history of a run, which outlives kills and resumes."""

from __future__ import annotations

from pathlib import Path

from stepwatch.trainer.checkpoint.checkpointer import CheckpointResult
from stepwatch.trainer.run.directory import HISTORY_NAME
from stepwatch.trainer.step.evaluate import Evaluated
from tests.trainer.run.conftest import OpenHistory, step_line


def test_a_killed_run_keeps_every_line(open_history: OpenHistory) -> None:
    open_history(3)
    assert [line.step for line in open_history().steps] == [0, 1, 2]


def test_a_resume_drops_and_counts_the_steps_to_train_again(open_history: OpenHistory) -> None:
    first = open_history(7)
    first.checkpoint(CheckpointResult(4, verified=True))
    first.evaluation(Evaluated(5, 2.5, 0.25, 4, marked=False))
    history = open_history()
    line = history.resume(4, now=1016.0)
    assert (line.from_step, line.steps_lost, line.seconds) == (4, 3, 10.0)
    history.append(step_line(4))
    reopened = open_history()
    assert [step.step for step in reopened.steps] == [0, 1, 2, 3, 4]
    assert reopened.resumes == [line]
    assert reopened.checkpoints[0]["step"] == 4
    assert reopened.evaluations == first.evaluations


def test_a_cut_off_last_line_is_dropped(open_history: OpenHistory, tmp_path: Path) -> None:
    open_history(2)
    with (tmp_path / HISTORY_NAME).open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert len(open_history().steps) == 2


def test_starting_anew_drops_all_lines(open_history: OpenHistory) -> None:
    open_history(2).restart()
    assert open_history().steps == []
