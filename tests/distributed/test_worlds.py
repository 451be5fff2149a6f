"""Missing, repeated or too many ranks give an error at the start."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore, TCPStore

from stepwatch.signals.errors import ConfigurationError
from stepwatch.trainer.parallel.runtime import wait_for_all_ranks
from tests.ports import free_port

from .conftest import SMALL


def _rank(
    trainer: Any, rank: int, world: int, port: int, *flags: str, **launcher: str
) -> subprocess.Popen[str]:
    where = ["--run-dir", str(trainer.run_dir), "--steps", "2"]
    command = [sys.executable, "-m", "stepwatch.trainer", *SMALL, *where, *flags]
    place = {"RANK": str(rank), "WORLD_SIZE": str(world)}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    process: subprocess.Popen[str] = trainer.start(*command, **place, **meeting, **launcher)
    return process


@pytest.mark.long(
    "tests/distributed/test_worlds.py::test_a_missing_rank_is_named_where_the_store_lives_elsewhere",
    "tests/distributed/test_worlds.py::test_outside_torchrun_the_error_shows_how_to_start",
)
def test_a_missing_rank_is_an_error(trainer: Any) -> None:
    flags = ("--mesh", "dp_shard=2", "--timeout-seconds", "4")
    finished = trainer.finish(_rank(trainer, 0, 2, free_port(), *flags))
    assert finished.code == 1
    (line,) = [line for line in finished.output.splitlines() if line.startswith("stepwatch:")]
    assert "not all ranks joined" in line
    assert "1/2 clients joined" in line


def test_a_missing_rank_is_named_where_the_store_lives_elsewhere() -> None:
    limit = timedelta(seconds=0.5)
    store = HashStore()
    with pytest.raises(ConfigurationError, match=r"rank 1, 3 did not join within 0 s"):
        store.add("stepwatch/rank/2", 1)
        wait_for_all_ranks(store, 0, 4, limit)
    with pytest.raises(ConfigurationError, match="rank 2 was started twice"):
        wait_for_all_ranks(store, 2, 4, limit)


@pytest.mark.long(
    "tests/distributed/test_worlds.py::test_a_missing_rank_is_named_where_the_store_lives_elsewhere",
)
def test_a_repeated_rank_is_named(trainer: Any) -> None:
    # The launcher owns the store, as under torchrun: it outlives the run, so that a late rank on a
    # busy machine is refused as an early one is.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    launcher = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    flags = ("--mesh", "dp_shard=2", "--timeout-seconds", "60")
    ranks = [_rank(trainer, rank, 2, store.port, *flags, **launcher) for rank in (0, 1, 1)]
    try:
        ended = [trainer.finish(process) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    printed = "\n".join(run.output for run in ended)
    assert ended[0].code == 0, printed
    assert sorted(run.code for run in ended[1:]) == [0, 1], printed
    (refused,) = [run for run in ended if run.code]
    assert "rank 1 was started twice" in refused.output


@pytest.mark.matrix
def test_a_world_that_does_not_fit_the_mesh_is_refused(trainer: Any) -> None:
    finished = trainer.finish(_rank(trainer, 0, 2, free_port(), "--mesh", "dp_shard=4"))
    assert finished.code == 2
    assert "the mesh (dp_shard=4) needs 4 ranks, 2 were started" in finished.output


def test_outside_torchrun_the_error_shows_how_to_start(trainer: Any) -> None:
    command = [sys.executable, "-m", "stepwatch.trainer", *SMALL, "--mesh", "pp=1"]
    finished = trainer.finish(trainer.start(*command))
    assert finished.code == 1
    assert "start with `stepwatch train` or `torchrun -m stepwatch.trainer`" in finished.output
