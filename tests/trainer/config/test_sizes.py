"""Parameters and FLOPs of each model size."""

from __future__ import annotations

import pytest
import torch

from stepwatch.trainer.config.sizes import ModelSize, model_sizes
from stepwatch.trainer.model.decoder import DecoderStage


@pytest.mark.parametrize("name", model_sizes())
def test_the_parameter_count_equals_that_of_the_built_model(name: str) -> None:
    size = model_sizes()[name]
    with torch.device("meta"):
        model = DecoderStage(size, range(size.layers), first=True, last=True, length=8)
    assert sum(parameter.numel() for parameter in model.parameters()) == size.parameters


def test_flops_follow_the_palm_convention() -> None:
    size = ModelSize("x", 2, 8, 2, 1, 16, 10_000.0)
    weights = 2 * (8 * 4 * (2 * 2 + 2 * 1) + 3 * 8 * 16) + 256 * 8
    assert size.flops_per_token(32) == 6 * weights + 12 * 2 * 8 * 32
