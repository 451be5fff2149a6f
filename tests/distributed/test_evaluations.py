"""Evaluations change no loss, and the hooks see the marked ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

STEPS = ("--steps", "12")
EVALUATE = ("--eval-every", "3", "--eval-batches", "2", "--eval-unmarked-every", "2")
LAYOUTS = {
    "1f1b-fsdp2": "--mesh pp=2,dp_shard=2",
    "fsdp2": "--mesh dp_shard=2",
    "ddp": "--mesh dp_replicate=2",
}
MORE_LAYOUTS = {
    "interleaved": "--mesh pp=2 --schedule interleaved",
    "zero-bubble": "--mesh pp=2 --schedule zero-bubble",
    "zbv": "--mesh pp=2 --schedule zbv",
    "gpipe": "--mesh pp=2 --schedule gpipe",
    "tensor": "--mesh tp=2 --microbatches 1",
    "ddp-1f1b": "--mesh pp=2,dp_replicate=2",
    "fsdp2-pp-tp": "--mesh pp=2,dp_shard=2,tp=2 --microbatches 2",
    "compiled": "--mesh dp_shard=2 --compile true",
}


def _compare(trainer: Any, straight: Callable[..., Any], flags: str) -> None:
    straight_losses = straight(*flags.split(), *STEPS).losses
    # A checkpoint between two evaluations equals one without evaluations.
    finished = trainer.train_forked(*flags.split(), *STEPS, *EVALUATE, "--checkpoint-every", "3")
    assert finished.losses == straight_losses
    evaluations = finished.result["evaluations"]
    assert [evaluation["evaluated"] for evaluation in evaluations] == [3, 6, 9, 12]
    assert [evaluation["marked"] for evaluation in evaluations] == [True, False, True, False]
    losses = [evaluation["loss"] for evaluation in evaluations]
    assert losses == sorted(losses, reverse=True) and abs(losses[-1] - straight_losses[-1]) < 0.5
    assert all(checkpoint["verified"] for checkpoint in finished.result["checkpoints"])


LONG = pytest.mark.long("tests/distributed/test_evaluations.py::test_evaluations_change_no_bit")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(flags, id=name, marks=() if name == "fsdp2" else LONG)
        for name, flags in LAYOUTS.items()
    ],
)
def test_evaluations_change_no_bit(trainer: Any, straight: Callable[..., Any], flags: str) -> None:
    _compare(trainer, straight, flags)


@pytest.mark.matrix
@pytest.mark.parametrize("flags", MORE_LAYOUTS.values(), ids=MORE_LAYOUTS)
def test_evaluations_of_further_combinations_change_no_bit(
    trainer: Any, straight: Callable[..., Any], flags: str
) -> None:
    _compare(trainer, straight, flags)
