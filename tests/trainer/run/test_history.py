"""The history of a run, which outlives kills and resumes."""

from __future__ import annotations

from pathlib import Path

from stepwatch.trainer.checkpoint.saver import Attempt
from stepwatch.trainer.run.history import HISTORY_NAME
from tests.trainer.run.conftest import OpenHistory, step_line


def test_a_killed_run_keeps_everystep_line(open_history: OpenHistory) -> None:
    open_history(3)
    assert [line.step for line in open_history().steps] == [0, 1, 2]


def test_a_resume_drops_what_will_be_trained_again_and_counts_it(open_history: OpenHistory) -> None:
    open_history(7).checkpoint(Attempt(4, verified=True))
    history = open_history()
    line = history.resume(4, now=1016.0)
    assert (line.from_step, line.steps_lost, line.seconds) == (4, 3, 10.0)
    history.append(step_line(4))
    again = open_history()
    assert [step.step for step in again.steps] == [0, 1, 2, 3, 4]
    assert again.resumes == [line]
    assert again.checkpoints[0]["step"] == 4


def test_a_torn_last_line_is_left_out(open_history: OpenHistory, tmp_path: Path) -> None:
    open_history(2)
    with (tmp_path / HISTORY_NAME).open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert len(open_history().steps) == 2


def test_starting_anew_forgets(open_history: OpenHistory) -> None:
    open_history(2).restart()
    assert open_history().steps == []
