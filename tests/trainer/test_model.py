"""The decoder, its stages, its first weights and its rotary positions."""

from __future__ import annotations

import math

import pytest
import torch

from stepwatch.trainer.initial import initialise
from stepwatch.trainer.model import Attention, Part, next_byte_loss, rotary_angles, rotate
from stepwatch.trainer.remat import recompute
from stepwatch.trainer.sizes import ModelSize, model_sizes

DEBUG = model_sizes()["debug"]
LENGTH = 16


def _part(layers: range, *, first: bool, last: bool, seed: int = 3) -> Part:
    part = Part(DEBUG, layers, first=first, last=last, length=LENGTH)
    initialise(part, seed, DEBUG.layers)
    return part


def _whole() -> Part:
    return _part(range(DEBUG.layers), first=True, last=True)


def _bytes(rows: int = 2) -> torch.Tensor:
    return torch.randint(0, 256, (rows, LENGTH), generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def test_stages_joined_are_the_whole_model() -> None:
    stages = [
        _part(range(2), first=True, last=False),
        _part(range(2, 3), first=False, last=False),
        _part(range(3, 4), first=False, last=True),
    ]
    hidden = _bytes()
    for stage in stages:
        hidden = stage(hidden)
    assert torch.equal(hidden, _whole()(_bytes()))


def test_names_of_stages_make_the_names_of_the_whole() -> None:
    stages = [
        _part(range(2), first=True, last=False),
        _part(range(2, 4), first=False, last=True),
    ]
    names = [name for stage in stages for name, _ in stage.named_parameters()]
    assert sorted(names) == sorted(name for name, _ in _whole().named_parameters())


@torch.no_grad()
def test_no_byte_sees_a_later_one() -> None:
    tokens, model = _bytes(), _whole()
    before = model(tokens)
    tokens[:, 10] += 1
    tokens %= 256
    after = model(tokens)
    assert torch.equal(after[:, :10], before[:, :10])
    assert not torch.equal(after[:, 10:], before[:, 10:])


@torch.no_grad()
def test_rotation_keeps_lengths_and_depends_on_distance_alone() -> None:
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
    found = attention(hidden, angles)
    query = rotate(attention._heads(attention.query(hidden)), angles)
    repeats = DEBUG.heads // DEBUG.kv_heads
    key = rotate(attention._heads(attention.key(hidden)), angles).repeat_interleave(repeats, 1)
    value = attention._heads(attention.value(hidden)).repeat_interleave(repeats, 1)
    scores = query @ key.transpose(-1, -2) / math.sqrt(DEBUG.head_width)
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ value
    expected = attention.output(mixed.transpose(1, 2).flatten(2))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["full", "selective"])
def test_recomputing_gives_the_same_gradients(kind: str) -> None:
    gradients = []
    for choice in ("keep", kind):
        model = _whole()
        recompute(model, choice)
        next_byte_loss(model(_bytes()), _bytes()).backward()  # type: ignore[no-untyped-call]
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_first_weights_depend_on_seed_and_name_alone() -> None:
    alone = _part(range(2, 4), first=False, last=True)
    whole = dict(_whole().named_parameters())
    assert all(torch.equal(p, whole[name]) for name, p in alone.named_parameters())
    other = dict(_part(range(2, 4), first=False, last=True, seed=4).named_parameters())
    assert not torch.equal(other["head.weight"], whole["head.weight"])


def test_the_first_loss_is_that_of_a_guess() -> None:
    loss = next_byte_loss(_whole()(_bytes(8)), _bytes(8))
    assert loss.item() == pytest.approx(math.log(256), abs=0.2)


@pytest.mark.parametrize("name", model_sizes())
def test_parameters_are_counted_as_they_are(name: str) -> None:
    size = model_sizes()[name]
    with torch.device("meta"):
        model = Part(size, range(size.layers), first=True, last=True, length=8)
    assert sum(parameter.numel() for parameter in model.parameters()) == size.parameters


def test_flops_follow_the_convention() -> None:
    size = ModelSize("x", 2, 8, 2, 1, 16, 10_000.0)
    weights = 2 * (8 * 4 * (2 * 2 + 2 * 1) + 3 * 8 * 16) + 256 * 8
    assert size.flops_per_token(32) == 6 * weights + 12 * 2 * 8 * 32
