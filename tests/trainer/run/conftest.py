"""The history of a run, opened as often as a run is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stepwatch.trainer.run.history import History, StepLine

OpenHistory = Callable[..., History]


def step_line(step: int, loss: float = 2.0, seconds: float = 0.5) -> StepLine:
    """The line of one step that began `step` seconds after Unix time 1000."""
    return StepLine(step, loss, 1.0, 1e-3, seconds, 1000.0 + step)


@pytest.fixture
def open_history(tmp_path: Path) -> Iterator[OpenHistory]:
    """Yield a function that opens the history repeatedly and adds steps; all are closed at the
    end."""
    with ExitStack() as stack:

        def open_one(added: int = 0) -> History:
            history = stack.enter_context(closing(History(tmp_path)))
            for step in range(added):
                history.append(step_line(step))
            return history

        yield open_one
