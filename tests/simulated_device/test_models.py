"""Models train on the simulated device as on the CPU: their losses are bitwise equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ranks.forked import ROOT, ForkedRanks

from .control import Control
from .runs import AUTOLOAD, PROGRAMS, figures, run, run_under_torchrun

TRAINER = ["--model", "tiny", "--steps", "4", "--batch", "4"]
TRAINER += ["--length", "32", "--data-bytes", "100000", "--microbatches", "2"]
ATTENTION = 1e-5
"""The CPU fuses the trainer's attention and the device does not: losses differ in the last bits."""

Figures = dict[str, Any]


@pytest.fixture(scope="module")
def two(forked_ranks: ForkedRanks, tmp_path_factory: pytest.TempPathFactory) -> list[Figures]:
    """Losses on CPU and device by way, of two ranks."""
    folder = tmp_path_factory.mktemp("two")
    return figures(forked_ranks, "models", 2, folder, "ddp", "fsdp", "pipeline")


@pytest.fixture(scope="module")
def four(forked_ranks: ForkedRanks, tmp_path_factory: pytest.TempPathFactory) -> list[Figures]:
    """Losses on CPU and device by way, of four ranks in groups of two."""
    folder = tmp_path_factory.mktemp("four")
    return figures(forked_ranks, "models", 4, folder, "hsdp", "pipeline-fsdp")


def _assert_equal(ranks: list[Figures], way: str) -> None:
    for rank in ranks:
        on_cpu, on_device = rank[way]
        assert on_device == on_cpu
    assert ranks[-1][way][0][0] > 0


@pytest.mark.parametrize("way", ["ddp", "fsdp", "pipeline"])
def test_two_ranks_train_as_on_the_cpu(two: list[Figures], way: str) -> None:
    _assert_equal(two, way)


@pytest.mark.parametrize("way", ["hsdp", "pipeline-fsdp"])
def test_two_groups_train_as_on_the_cpu(four: list[Figures], way: str) -> None:
    _assert_equal(four, way)


def _trainer(folder: Path, mesh: str) -> list[str]:
    places = ("--json", str(folder / "result.json"), "--run-dir", str(folder / "run"))
    return [*TRAINER, "--mesh", mesh, *places]


def _losses(folder: Path) -> list[float]:
    losses: list[float] = json.loads((folder / "result.json").read_text())["losses"]
    return losses


@pytest.fixture(scope="module")
def on_one_cpu(forked_ranks: ForkedRanks, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Losses of the reference trainer on one CPU rank; every mesh trains the same model."""
    folder = tmp_path_factory.mktemp("cpu")
    run(forked_ranks, ["stepwatch.trainer", *_trainer(folder, "")], 1, folder)
    return _losses(folder)


@pytest.mark.parametrize(("mesh", "ranks"), [("dp_replicate=2", 2), ("pp=2,dp_shard=2", 4)])
def test_the_reference_trainer_takes_the_device(
    forked_ranks: ForkedRanks, tmp_path: Path, on_one_cpu: list[float], mesh: str, ranks: int
) -> None:
    words = [f"{PROGRAMS}.trainer", *_trainer(tmp_path, mesh), "--device", "sim"]
    run(forked_ranks, words, ranks, tmp_path)
    assert _losses(tmp_path) == pytest.approx(on_one_cpu, abs=ATTENTION)


@pytest.mark.long(
    "tests/simulated_device/test_models.py::test_the_reference_trainer_takes_the_device",
)
def test_torch_finds_the_device_where_its_entry_point_is_on_the_path(
    tmp_path: Path, on_one_cpu: list[float]
) -> None:
    words = ["stepwatch.trainer", *_trainer(tmp_path, "dp_shard=2"), "--device", "sim"]
    run_under_torchrun(words, 2, PYTHONPATH=f"{ROOT}:{AUTOLOAD}")
    assert _losses(tmp_path) == pytest.approx(on_one_cpu, abs=ATTENTION)


def test_neither_device_nor_hooks_nor_a_fault_from_outside_change_a_loss(
    forked_ranks: ForkedRanks, tmp_path: Path
) -> None:
    loop = [f"{PROGRAMS}.ddp_loop", "--json", str(tmp_path / "result.json")]
    loop += ["--steps=8", "--recompute", "--accumulate=2"]
    run(forked_ranks, [*loop, "--device=cpu"], 2, tmp_path)
    on_cpu = _losses(tmp_path)
    for rank in range(2):
        Control(tmp_path / str(rank)).set_default_seconds(1e-4)
    Control(tmp_path / "1").set_slow(5)
    Control(tmp_path / "1").set_link(1e-3)
    changes = {"SIM_CONTROL": str(tmp_path / "{rank}"), "STEPWATCH_RING_DIR": str(tmp_path)}
    run(forked_ranks, [*loop, "--side-stream"], 2, tmp_path, STEPWATCH_DISABLE="", **changes)
    assert _losses(tmp_path) == on_cpu
