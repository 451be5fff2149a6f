"""The command that starts the ranks, and their environment."""

from __future__ import annotations

import pytest

from stepwatch.signals.errors import UsageError
from stepwatch.trainer.run.launch import rank_environment, torchrun_command
from tests.trainer.builders import options_of


def test_the_torchrun_command_has_ranks_restarts_and_rendezvous() -> None:
    words = torchrun_command(options_of("--restarts 3"))
    assert "--standalone" in words
    assert "--nproc-per-node=4" in words
    assert "--max-restarts=3" in words
    several = torchrun_command(options_of("--nodes 1:2 --rendezvous host:29400 --job llama"))
    assert {"--nnodes=1:2", "--nproc-per-node=2", "--rdzv-endpoint=host:29400"} <= set(several)
    assert "--rdzv-id=llama" in several


@pytest.mark.parametrize("nodes", ["0", "2:1", "x", "1:", "3 --rendezvous a:1", "2"])
def test_invalid_nodes_are_refused(nodes: str) -> None:
    with pytest.raises(UsageError):
        torchrun_command(options_of(f"--nodes {nodes}"))


def test_faults_are_validated_before_a_rank_starts() -> None:
    environment = rank_environment(["kill:rank=1,step=2", "slow-data"], {"HOME": "/root"})
    assert environment["STEPWATCH_FAULTS"] == "kill:rank=1,step=2;slow-data"
    assert environment["HOME"] == "/root"
    with pytest.raises(UsageError, match="did you mean 'kill'"):
        rank_environment(["kil"], {})
