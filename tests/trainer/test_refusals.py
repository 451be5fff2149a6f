"""What is refused before any process starts, and what is only warned of."""

from __future__ import annotations

import pytest

from stepwatch.faults import parse_fault
from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.trainer.configure import configure
from stepwatch.trainer.elastic import fitted_mesh
from stepwatch.trainer.launch import rank_environment, torchrun_command
from stepwatch.trainer.mesh import MeshShape, parse_mesh
from stepwatch.trainer.options import Options
from stepwatch.trainer.refusals import refuse, refuse_faults, warnings_for
from stepwatch.trainer.runtime import launched_world


def _options(flags: str) -> Options:
    return configure(flags.split(), "test")[0]


REFUSED = {
    "--mesh pp=3": "4 layers of tiny cannot be divided into 3 stages",
    "--mesh pp=4 --schedule interleaved": "into 8 stages",
    "--mesh tp=8": "4 heads of tiny cannot be divided by tp=8",
    "--mesh tp=4": "2 key-value heads of tiny cannot be divided by tp=4",
    "--mesh tp=2 --length 33": "--length 33 cannot be divided by tp=2",
    "--mesh dp_shard=3": "--batch 32 cannot be divided by 3 data ranks x 4 micro-batches; 24 can",
    "--mesh pp=4 --microbatches 2": "1f1b needs at least 4 micro-batches for pp=4",
    "--mesh pp=2 --schedule interleaved --microbatches 5 --batch 20": "multiple of it, such as 4",
    "--mesh pp=2 --schedule zbv --compile true": "torch.compile cannot do",
    "--mesh pp=2 --schedule zero-bubble --activations full": "use --activations keep",
    "--mesh tp=2 --compile true": "leave one of the two out",
    "--mesh dp_shard=2 --compression bf16": "only with a mesh of dp_replicate alone",
    "--model debag": "did you mean 'debug'?",
    "--steps 0": "--steps must be at least 1",
    "--lr nan": "--lr must be at least 0",
}


@pytest.mark.parametrize(("flags", "reason"), REFUSED.items(), ids=REFUSED)
def test_it_is_refused_with_the_reason(flags: str, reason: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as refusal:
        refuse(_options(flags))
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--mesh dp_replicate=2 --compression powersgd",
        "--mesh pp=2,dp_shard=2,tp=2 --schedule interleaved",
        "--model 8b --mesh pp=4,dp_shard=8,tp=8 --batch 1024 --microbatches 16 --length 8192",
    ],
)
def test_what_torch_supports_is_not_refused(flags: str) -> None:
    refuse(_options(flags))


def test_too_few_microbatches_are_warned_of_with_their_cost() -> None:
    (warning,) = warnings_for(_options("--mesh pp=4 --schedule gpipe --microbatches 2"))
    assert "idle for 60% of the step; 16 would leave 16%" in warning
    assert warnings_for(_options("--mesh pp=2")) == []


def test_an_elastic_mesh_shrinks_its_data_axes_only() -> None:
    options = _options("--nodes 1:2 --mesh pp=2,dp_replicate=2,dp_shard=2 --microbatches 4")
    assert fitted_mesh(options, 8) == parse_mesh("pp=2,dp_replicate=2,dp_shard=2")
    assert fitted_mesh(options, 4) == MeshShape(pp=2, dp_shard=2)
    assert fitted_mesh(options, 2) == MeshShape(pp=2)
    with pytest.raises(UsageError, match="3 ranks cannot carry pp=2"):
        fitted_mesh(options, 3)


@pytest.mark.parametrize(
    ("environment", "kind", "reason"),
    [
        ({}, ConfigurationError, "RANK is not set"),
        ({"RANK": "0"}, ConfigurationError, "WORLD_SIZE is not set"),
        ({"RANK": "x", "WORLD_SIZE": "4"}, ConfigurationError, "whole numbers"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, ConfigurationError, "ranks miss or repeat"),
        ({"RANK": "0", "WORLD_SIZE": "3"}, UsageError, "needs 4 ranks, 3 were started"),
    ],
)
def test_a_wrong_world_is_refused(
    environment: dict[str, str], kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        launched_world(environment, MeshShape(pp=2, dp_shard=2))


def test_the_command_of_torchrun() -> None:
    words = torchrun_command(_options("--restarts 3"))
    assert "--standalone" in words
    assert "--nproc-per-node=4" in words
    assert "--max-restarts=3" in words
    several = torchrun_command(_options("--nodes 1:2 --rendezvous host:29400 --job llama"))
    assert {"--nnodes=1:2", "--nproc-per-node=2", "--rdzv-endpoint=host:29400"} <= set(several)
    assert "--rdzv-id=llama" in several


@pytest.mark.parametrize("nodes", ["0", "2:1", "x", "1:", "3 --rendezvous a:1", "2"])
def test_nodes_that_cannot_work_are_refused(nodes: str) -> None:
    with pytest.raises(UsageError):
        torchrun_command(_options(f"--nodes {nodes}"))


def test_faults_are_checked_before_they_reach_a_rank() -> None:
    environment = rank_environment(["kill:rank=1,step=2", "slow-data"], {"HOME": "/root"})
    assert environment["STEPWATCH_FAULTS"] == "kill:rank=1,step=2;slow-data"
    assert environment["HOME"] == "/root"
    with pytest.raises(UsageError, match="did you mean 'kill'"):
        rank_environment(["kil"], {})


@pytest.mark.parametrize(
    ("fault", "flags", "reason"),
    [
        ("wrong-order", "", "has none to swap"),
        ("skewed-shard", "", "same length"),
        ("stage-imbalance", "--mesh dp_shard=2", "a pp of at least 2"),
        ("nan-gradients", "--compile true", "leave out --compile"),
        ("stage-imbalance", "", ""),
        ("nan-gradients", "", ""),
    ],
)
def test_a_fault_that_this_run_cannot_suffer_is_refused_with_the_reason(
    fault: str, flags: str, reason: str
) -> None:
    asked = [parsed for parsed in [parse_fault(fault)] if parsed is not None]
    if not reason:
        refuse_faults(_options(flags), asked)
        return
    with pytest.raises(UsageError, match=reason):
        refuse_faults(_options(flags), asked)
