"""Recomputing activations in backward."""

from __future__ import annotations

import pytest
import torch

from stepwatch.trainer.model.activation_checkpointing import checkpoint_activations
from stepwatch.trainer.model.decoder import next_byte_loss
from tests.trainer.builders import debug_model, tokens


@pytest.mark.parametrize("kind", ["full", "selective"])
def test_recomputing_gives_the_same_gradients(kind: str) -> None:
    gradients = []
    for choice in ("keep", kind):
        model = debug_model()
        checkpoint_activations(model, choice)
        next_byte_loss(model(tokens()), tokens()).backward()  # type: ignore[no-untyped-call]
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
