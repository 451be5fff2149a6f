"""Missing, repeated or too many ranks give an error at the start."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch._C._distributed_c10d import HashStore

from stepwatch.signals.errors import ConfigurationError
from stepwatch.trainer.parallel.runtime import wait_for_all_ranks
from tests.ports import free_port
from tests.waiting import until

from .conftest import SMALL


def _rank(trainer: Any, rank: int, world: int, port: int, *flags: str) -> subprocess.Popen[str]:
    where = ["--run-dir", str(trainer.run_dir), "--steps", "2"]
    command = [sys.executable, "-m", "stepwatch.trainer", *SMALL, *where, *flags]
    place = {"RANK": str(rank), "WORLD_SIZE": str(world)}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    process: subprocess.Popen[str] = trainer.start(*command, **place, **meeting)
    return process


def test_a_missing_rank_is_an_error(trainer: Any) -> None:
    flags = ("--mesh", "dp_shard=2", "--timeout-seconds", "4")
    finished = trainer.finish(_rank(trainer, 0, 2, free_port(), *flags))
    assert finished.code == 1
    (line,) = [line for line in finished.printed.splitlines() if line.startswith("stepwatch:")]
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


def _has_torch(pid: int) -> bool:
    return "libtorch_cpu" in Path(f"/proc/{pid}/maps").read_text()


def test_a_repeated_rank_is_named(trainer: Any) -> None:
    port, flags = free_port(), ("--mesh", "dp_shard=2", "--timeout-seconds", "60")
    ranks = [_rank(trainer, rank, 2, port, *flags) for rank in (1, 1)]
    # Rank 0 holds the store: on a busy machine it is done before the second of them has begun.
    for process in ranks:
        until("it has loaded torch", partial(_has_torch, process.pid))
    time.sleep(8.0)
    ranks.append(_rank(trainer, 0, 2, port, *flags))
    try:
        ended = [trainer.finish(process) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    printed = "\n".join(each.printed for each in ended)
    assert sorted(each.code for each in ended[:2]) == [0, 1], printed
    assert ended[2].code == 0, printed
    (refused,) = [each for each in ended if each.code]
    assert "rank 1 was started twice" in refused.printed


@pytest.mark.matrix
def test_a_world_that_does_not_fit_the_mesh_is_refused(trainer: Any) -> None:
    finished = trainer.finish(_rank(trainer, 0, 2, free_port(), "--mesh", "dp_shard=4"))
    assert finished.code == 2
    assert "the mesh (dp_shard=4) needs 4 ranks, 2 were started" in finished.printed


def test_outside_torchrun_the_error_shows_how_to_start(trainer: Any) -> None:
    command = [sys.executable, "-m", "stepwatch.trainer", *SMALL, "--mesh", "pp=1"]
    finished = trainer.finish(trainer.start(*command))
    assert finished.code == 1
    assert "start with `stepwatch train` or `torchrun -m stepwatch.trainer`" in finished.printed
