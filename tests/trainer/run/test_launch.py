"""The command that starts the ranks, and their environment."""

from __future__ import annotations

import pytest

from stepwatch.signals.errors import UsageError
from stepwatch.trainer.run.launch import rank_environment, torchrun_command
from tests.trainer.made import options_of


def test_the_command_of_torchrun() -> None:
    words = torchrun_command(options_of("--restarts 3"))
    assert "--standalone" in words
    assert "--nproc-per-node=4" in words
    assert "--max-restarts=3" in words
    several = torchrun_command(options_of("--nodes 1:2 --rendezvous host:29400 --job llama"))
    assert {"--nnodes=1:2", "--nproc-per-node=2", "--rdzv-endpoint=host:29400"} <= set(several)
    assert "--rdzv-id=llama" in several


@pytest.mark.parametrize("nodes", ["0", "2:1", "x", "1:", "3 --rendezvous a:1", "2"])
def test_nodes_that_cannot_work_are_refused(nodes: str) -> None:
    with pytest.raises(UsageError):
        torchrun_command(options_of(f"--nodes {nodes}"))


def test_faults_are_checked_before_they_reach_a_rank() -> None:
    environment = rank_environment(["kill:rank=1,step=2", "slow-data"], {"HOME": "/root"})
    assert environment["STEPWATCH_FAULTS"] == "kill:rank=1,step=2;slow-data"
    assert environment["HOME"] == "/root"
    with pytest.raises(UsageError, match="did you mean 'kill'"):
        rank_environment(["kil"], {})
