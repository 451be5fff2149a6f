"""The initial weights."""

from __future__ import annotations

import math

import pytest
import torch

from stepwatch.trainer.model.decoder import next_byte_loss
from tests.trainer.builders import debug_model, decoder_stage, tokens


def test_initial_weights_depend_on_seed_and_name_only() -> None:
    stage_weights = decoder_stage(range(2, 4), first=False, last=True)
    every = dict(debug_model().named_parameters())
    assert all(torch.equal(p, every[name]) for name, p in stage_weights.named_parameters())
    reseeded = dict(decoder_stage(range(2, 4), first=False, last=True, seed=4).named_parameters())
    assert not torch.equal(reseeded["head.weight"], every["head.weight"])


def test_the_first_loss_is_that_of_a_uniform_guess() -> None:
    loss = next_byte_loss(debug_model()(tokens(8)), tokens(8))
    assert loss.item() == pytest.approx(math.log(256), abs=0.2)
