"""Models train on the simulated device as on the CPU: their losses are bitwise equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .control import Control
from .runs import PROGRAMS, figures, run

LOOP = f"{PROGRAMS}.ddp_loop"
TRAINER = ["stepwatch.trainer", "--model", "tiny", "--steps", "4", "--batch", "4"]
TRAINER += ["--length", "32", "--data-bytes", "100000", "--microbatches", "2"]
ATTENTION = 1e-5
"""The CPU fuses the trainer's attention and the device does not: losses differ in the last bits."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Losses on CPU and device by way, of two ranks."""
    return figures("models", tmp_path_factory.mktemp("two"), 2, "ddp", "fsdp", "pipeline")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Losses on CPU and device by way, of four ranks in groups of two."""
    return figures("models", tmp_path_factory.mktemp("four"), 4, "hsdp", "pipeline-fsdp")


def _same(ranks: list[dict[str, Any]], way: str) -> None:
    for rank in ranks:
        on_cpu, on_device = rank[way]
        assert on_device == on_cpu
    assert ranks[-1][way][0][0] > 0


@pytest.mark.parametrize("way", ["ddp", "fsdp", "pipeline"])
def test_two_ranks_train_as_on_the_cpu(two: list[dict[str, Any]], way: str) -> None:
    _same(two, way)


@pytest.mark.parametrize("way", ["hsdp", "pipeline-fsdp"])
def test_two_groups_train_as_on_the_cpu(four: list[dict[str, Any]], way: str) -> None:
    _same(four, way)


@pytest.fixture(scope="module")
def on_one_cpu(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of the reference trainer on one CPU rank; every mesh trains the same model."""
    return _trained(tmp_path_factory.mktemp("cpu"), "", 1)


def _trained(folder: Path, mesh: str, ranks: int, *words: str) -> list[float]:
    result = folder / "result.json"
    run([*TRAINER, "--mesh", mesh, "--json", str(result), *words], ranks, STEPWATCH_DISABLE="1")
    losses: list[float] = json.loads(result.read_text())["losses"]
    return losses


@pytest.mark.parametrize(("mesh", "ranks"), [("dp_replicate=2", 2), ("pp=2,dp_shard=2", 4)])
def test_the_reference_trainer_takes_the_device(
    tmp_path: Path, on_one_cpu: list[float], mesh: str, ranks: int
) -> None:
    losses = _trained(tmp_path, mesh, ranks, "--device", "sim")
    assert losses == pytest.approx(on_one_cpu, abs=ATTENTION)


def _losses(folder: Path, *words: str, **changes: str) -> list[float]:
    result = folder / "losses.json"
    words = ("--recompute", "--accumulate=2", "--steps=8", *words)
    run([LOOP, "--json", str(result), *words], 2, **changes)
    losses: list[float] = json.loads(result.read_text())["losses"]
    return losses


def test_neither_device_nor_hooks_nor_a_fault_from_outside_change_a_loss(tmp_path: Path) -> None:
    for rank in range(2):
        Control(tmp_path / str(rank)).set_default_seconds(1e-4)
    Control(tmp_path / "1").set_slow(5)
    Control(tmp_path / "1").set_link(1e-3)
    control = {"SIM_CONTROL": str(tmp_path / "{rank}"), "STEPWATCH_RING_DIR": str(tmp_path)}
    on_device = _losses(tmp_path, "--side-stream", **control)
    assert on_device == _losses(tmp_path, "--device=cpu", STEPWATCH_DISABLE="1")
