"""Every mesh trains the same model: the losses are equal within rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwatch.signals.blackbox import find_rings

STEPS = ("--steps", "30")
TOLERANCE = 2e-5
"""Largest difference of a loss (about 5 nats) over 30 steps: float32 sums in another order."""

LAYOUTS = {
    "ddp": "--mesh dp_replicate=2",
    "fsdp2": "--mesh dp_shard=2",
    "tensor": "--mesh tp=2 --microbatches 1",
    "1f1b": "--mesh pp=4 --schedule 1f1b",
    "interleaved": "--mesh pp=2 --schedule interleaved",
    "zero-bubble": "--mesh pp=2 --schedule zero-bubble",
    "zbv": "--mesh pp=2 --schedule zbv",
}
MORE_LAYOUTS = {
    "hsdp": "--mesh dp_replicate=2,dp_shard=2 --microbatches 1",
    "gpipe": "--mesh pp=2 --schedule gpipe",
    "fsdp2-pp-tp": "--mesh pp=2,dp_shard=2,tp=2 --microbatches 2",
    "hsdp-accumulated": "--mesh dp_replicate=2,dp_shard=2",
    "tensor-accumulated": "--mesh tp=2",
    "ddp-4": "--mesh dp_replicate=4",
    "fsdp2-4": "--mesh dp_shard=4",
    "fsdp2-tp": "--mesh dp_shard=2,tp=2",
    "hsdp-tp": "--mesh dp_replicate=2,tp=2",
    "ddp-1f1b": "--mesh pp=2,dp_replicate=2",
    "ddp-gpipe": "--mesh pp=2,dp_replicate=2 --schedule gpipe",
    "ddp-interleaved": "--mesh pp=2,dp_replicate=2 --schedule interleaved",
    "replicas-zero-bubble": "--mesh pp=2,dp_replicate=2 --schedule zero-bubble",
    "replicas-zbv": "--mesh pp=2,dp_replicate=2 --schedule zbv",
    "fsdp2-zero-bubble": "--mesh pp=2,dp_shard=2 --schedule zero-bubble",
    "fsdp2-zbv": "--mesh pp=2,dp_shard=2 --schedule zbv",
    "hsdp-1f1b": "--mesh pp=2,dp_replicate=2,dp_shard=2",
    "fsdp2-tp-interleaved": "--mesh pp=2,dp_shard=2,tp=2 --schedule interleaved",
    "tp-zero-bubble": "--mesh pp=2,tp=2 --schedule zero-bubble",
    "full-checkpoint_activations": "--mesh dp_shard=2 --activations full",
    "selective-checkpoint_activations": "--mesh dp_shard=2 --activations selective",
    "checkpoint_activations-1f1b": "--mesh pp=2,dp_shard=2 --activations full",
    "checkpoint_activations-tp": "--mesh dp_shard=2,tp=2 --activations selective",
    "compiled": "--mesh dp_shard=2 --compile true",
    "compiled-1f1b": "--mesh pp=2,dp_shard=2 --compile true",
}


def _difference(losses: list[float], expected: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, expected, strict=True))


def _compare(trainer: Any, straight: Callable[..., Any], flags: str, tolerance: float) -> None:
    straight_losses = straight("--mesh", "pp=1", *STEPS).losses
    finished = trainer.train_forked(*STEPS, *flags.split())
    assert straight_losses[0] > 5.4 > 4.7 > straight_losses[-1]
    assert _difference(finished.losses, straight_losses) <= tolerance
    trained = sum(finished.result["samples"])
    assert trained > 0 and trained % (16 * 30) == 0


FAST = ("fsdp2", "tensor", "1f1b")
LONG = pytest.mark.long("tests/distributed/test_strategies.py::test_losses_agree_with_one_process")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(flags, id=name, marks=() if name in FAST else LONG)
        for name, flags in LAYOUTS.items()
    ],
)
def test_losses_agree_with_one_process(
    trainer: Any, straight: Callable[..., Any], flags: str
) -> None:
    _compare(trainer, straight, flags, TOLERANCE)


@pytest.mark.matrix
@pytest.mark.parametrize("flags", MORE_LAYOUTS.values(), ids=MORE_LAYOUTS)
def test_losses_of_further_combinations_agree(
    trainer: Any, straight: Callable[..., Any], flags: str
) -> None:
    _compare(trainer, straight, flags, TOLERANCE)


@pytest.mark.parametrize(
    ("flags", "tolerance"),
    [
        pytest.param("--mesh dp_shard=2 --precision bf16", 0.02, marks=pytest.mark.matrix),
        ("--mesh dp_replicate=2 --compression bf16", 0.002),
        pytest.param(
            *("--mesh dp_replicate=2 --compression powersgd", 0.25),
            marks=pytest.mark.long(
                "tests/distributed/test_strategies.py::test_lossy_arithmetic_stays_within_its_tolerance"
            ),
        ),
    ],
)
def test_lossy_arithmetic_stays_within_its_tolerance(
    trainer: Any, straight: Callable[..., Any], flags: str, tolerance: float
) -> None:
    straight_losses = straight("--mesh", "pp=1", *STEPS).losses
    losses = trainer.train_forked(*STEPS, *flags.split()).losses
    assert 0.0 < _difference(losses, straight_losses) <= tolerance


def test_hooks_change_no_bit(trainer: Any, straight: Callable[..., Any]) -> None:
    flags = ("--mesh", "pp=2,dp_shard=2", "--steps", "12")
    watched = straight(*flags)
    rings = watched.directory / "rings"
    assert len(list(find_rings(rings))) == 4
    assert trainer.train_forked(*flags, STEPWATCH_DISABLE="1").losses == watched.losses
    assert not (trainer.directory / "rings").exists()
