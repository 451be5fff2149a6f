"""`--nonfinite`: a gradient that is not finite is skipped, stops the run, or is applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ONE_RANK = ("--mesh", "pp=1", "--steps", "12")
FAULT = "nan-gradients:rank=0,step=5,until=6"


def test_skip_keeps_the_parameters_of_the_step_before(
    trainer: Any, straight: Callable[..., Any]
) -> None:
    losses = trainer.train_forked(*ONE_RANK, faults=[FAULT]).losses
    healthy = straight(*ONE_RANK).losses
    assert losses[:6] == healthy[:6]
    assert losses[6:] != healthy[6:]
    assert None not in losses
    assert losses[-1] < losses[5]


@pytest.mark.matrix
def test_stop_names_the_step(trainer: Any) -> None:
    finished = trainer.run(*ONE_RANK, "--fault", FAULT, "--nonfinite", "stop")
    assert finished.code == 1
    assert "step 5: loss" in finished.output
    assert "gradient norm nan: lower --lr" in finished.output


def test_apply_makes_later_losses_nan_and_takes_no_checkpoint_of_them(trainer: Any) -> None:
    flags = ("--nonfinite", "apply", "--checkpoint-every", "4")
    finished = trainer.train_forked(*ONE_RANK, *flags, faults=[FAULT])
    assert finished.losses[6:] == [None] * 6
    steps = [row["step"] for row in finished.result["checkpoints"]]
    assert steps == [4]
