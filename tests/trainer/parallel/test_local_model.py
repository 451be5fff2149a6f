"""The part of the model on one rank."""

from __future__ import annotations

import torch

from stepwatch.trainer.config.sizes import model_sizes
from stepwatch.trainer.parallel.local_model import autocast_dtype, build_local_model
from stepwatch.trainer.parallel.runtime import Runtime
from tests.trainer.builders import options_of


def test_one_rank_holds_the_whole_model(runtime: Runtime) -> None:
    model = build_local_model(options_of("--mesh pp=1 --model debug"), runtime)
    assert (model.stage_indices, model.stage_count) == ([0], 1)
    assert model.has_first
    assert model.has_last
    count = sum(parameter.numel() for parameter in model.named_parameters().values())
    assert count == model_sizes()["debug"].parameters


def test_weight_decay_applies_to_matrices_only(runtime: Runtime) -> None:
    model = build_local_model(options_of("--mesh pp=1 --model debug"), runtime)
    decays = {
        parameter.dim(): group["weight_decay"]
        for group in model.optimizer.param_groups
        for parameter in group["params"]
    }
    assert decays == {2: 0.1, 1: 0.0}


def test_autocast_is_used_where_fsdp2_does_not_cast() -> None:
    assert autocast_dtype(options_of("--mesh pp=1")) is None
    assert autocast_dtype(options_of("--mesh pp=1 --precision bf16")) is torch.bfloat16
    assert autocast_dtype(options_of("--mesh dp_shard=2 --precision bf16")) is None
