"""The decoder, its stages and its rotary positions."""

from __future__ import annotations

import math

import torch

from stepwatch.trainer.model.decoder import Attention, rotary_angles, rotate
from tests.trainer.builders import DEBUG, LENGTH, debug_model, decoder_stage, tokens


@torch.no_grad()
def test_the_stages_in_a_row_equal_the_whole_model() -> None:
    stages = [
        decoder_stage(range(2), first=True, last=False),
        decoder_stage(range(2, 3), first=False, last=False),
        decoder_stage(range(3, 4), first=False, last=True),
    ]
    hidden = tokens()
    for stage in stages:
        hidden = stage(hidden)
    assert torch.equal(hidden, debug_model()(tokens()))


def test_the_parameter_names_of_the_stages_are_those_of_the_whole_model() -> None:
    stages = [
        decoder_stage(range(2), first=True, last=False),
        decoder_stage(range(2, 4), first=False, last=True),
    ]
    names = [name for stage in stages for name, _ in stage.named_parameters()]
    assert sorted(names) == sorted(name for name, _ in debug_model().named_parameters())


@torch.no_grad()
def test_no_logit_depends_on_a_later_byte() -> None:
    text, model = tokens(), debug_model()
    original = model(text)
    text[:, 10] += 1
    text %= 256
    changed = model(text)
    assert torch.equal(changed[:, :10], original[:, :10])
    assert not torch.equal(changed[:, 10:], original[:, 10:])


@torch.no_grad()
def test_rotation_keeps_norms_and_products_depend_on_distance_only() -> None:
    angles = rotary_angles(8, 12, 10_000.0)
    query, key = torch.randn(8), torch.randn(8)
    queries = rotate(query.expand(1, 1, 12, 8), angles)[0, 0]
    keys = rotate(key.expand(1, 1, 12, 8), angles)[0, 0]
    assert torch.allclose(queries.norm(dim=-1), query.norm().expand(12), atol=1e-5)
    products = queries @ keys.T
    for distance in range(11):
        diagonal = products.diagonal(-distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-4)


@torch.no_grad()
def test_shared_keys_equal_repeated_keys() -> None:
    attention = Attention(DEBUG)
    hidden = torch.randn(2, LENGTH, DEBUG.width)
    angles = rotary_angles(DEBUG.head_width, LENGTH, DEBUG.rotary_base)
    grouped = attention(hidden, angles)
    query = rotate(attention._heads(attention.query(hidden)), angles)
    repeats = DEBUG.heads // DEBUG.kv_heads
    key = rotate(attention._heads(attention.key(hidden)), angles).repeat_interleave(repeats, 1)
    value = attention._heads(attention.value(hidden)).repeat_interleave(repeats, 1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(DEBUG.head_width)
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ value
    expected = attention.output(mixed.transpose(1, 2).flatten(2))
    assert torch.allclose(grouped, expected, atol=1e-5)
