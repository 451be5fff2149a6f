"""Rank and world come from whoever knows best, and launches are kept apart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from stepwatch.hooks.opening.launchers import (
    RankInWorld,
    allocated_since_s,
    known_rank,
    launch_key,
    launcher_of,
)
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.processes import start_ticks

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4"}


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A torch whose process group is not there yet."""
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: False,
        get_rank=lambda: 5,
        get_world_size=lambda: 8,
    )
    fake = SimpleNamespace(distributed=distributed)
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        (TORCHRUN, (3, 4)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "2", "PMI_SIZE": "3"}, (2, 3)),
        ({"SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "7"}, (6, 7)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),  # the batch script is not a task
        ({**TORCHRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, (3, 4)),
        ({"RANK": "3"}, None),
        ({}, None),
    ],
)
def test_each_launcher_is_understood(environ: dict[str, str], rank: tuple[int, int] | None) -> None:
    assert known_rank(environ) == rank


def test_torch_counts_before_a_framework_and_that_before_the_launcher(
    torch: SimpleNamespace,
) -> None:
    framework_rank = RankInWorld(1, 2)
    assert known_rank(TORCHRUN, framework_rank) == framework_rank
    torch.distributed.is_initialized = lambda: True
    assert known_rank(TORCHRUN, framework_rank) == (5, 8)


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="PMI_SIZE='many' is not a whole number"):
        known_rank({"PMI_RANK": "0", "PMI_SIZE": "many"})


def test_ranks_of_one_launch_share_a_key_and_two_launches_do_not() -> None:
    elastic = {"TORCHELASTIC_RUN_ID": "a", "MASTER_PORT": "1"}
    assert launch_key(elastic) == launch_key({**elastic, "RANK": "3", "MASTER_PORT": "2"})
    assert launch_key(elastic) != launch_key({**elastic, "TORCHELASTIC_RUN_ID": "b"})
    static = {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "1"}
    assert launch_key(static) != launch_key({**static, "MASTER_PORT": "2"})
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}
    assert launch_key(step) != launch_key({**step, "SLURM_STEP_ID": "1"})


def test_devices_are_held_since_the_batch_job_or_torchrun_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert allocated_since_s({}) is None, "a shell that started it days ago holds no devices"
    assert allocated_since_s({"SLURM_JOB_START_TIME": "1795000000"}) == 1_795_000_000
    for wrong in ("", "soon", "-5", "9" * 20):
        assert allocated_since_s({"SLURM_JOB_START_TIME": wrong}) is None
    before_s = time.time()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as launcher:
        monkeypatch.setattr(os, "getppid", lambda: launcher.pid)
        since_s = allocated_since_s({"TORCHELASTIC_RUN_ID": "none"})
        assert since_s is not None and before_s - 2 <= since_s <= time.time() + 1
        launcher.kill()
    assert allocated_since_s({"TORCHELASTIC_RUN_ID": "none"}) is None, "nobody by that number"


def test_torchrun_alone_starts_a_rank_again() -> None:
    parent = os.getppid()
    assert launcher_of({"TORCHELASTIC_RUN_ID": "none"}) == (parent, start_ticks(parent))
    assert launcher_of({"SLURM_PROCID": "0"}) == (0, 0)


def test_where_nothing_names_the_launch_its_parent_does(monkeypatch: pytest.MonkeyPatch) -> None:
    own_key = launch_key({"SLURM_JOB_ID": "7"})
    assert own_key == launch_key({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0"})
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert own_key != launch_key({"SLURM_JOB_ID": "7"})
