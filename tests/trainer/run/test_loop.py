"""Due checkpoints."""

from __future__ import annotations

import pytest

from stepwatch.trainer.run.loop import checkpoint_due


@pytest.mark.parametrize(("every", "due"), [(4, [4, 8, 10]), (5, [5, 10]), (0, [10]), (20, [10])])
def test_checkpoints_are_due_at_the_interval_and_after_the_last_step(
    every: int, due: list[int]
) -> None:
    steps = range(1, 11)
    assert [step for step in steps if checkpoint_due(step, 10, every, overdue=False)] == due


def test_an_overdue_checkpoint_is_due_at_any_step() -> None:
    assert checkpoint_due(3, 10, 0, overdue=True)
