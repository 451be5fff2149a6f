"""A flipped bit is found, or it changes nothing that a load reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from stepwatch.agent.checkpoints import State

from .written import verified


def saved(path: Path) -> dict[str, Any]:
    """Write a small file whose structure is larger than its data, and return its content."""
    state = {"weight": torch.arange(40.0).reshape(5, 8), "bias": torch.ones(3), "step": 7}
    torch.save(state, path)
    return state


def assert_found_or_harmless(folder: Path, flips: int) -> None:
    path = folder / "checkpoint.pt"
    state = saved(path)
    data, draw, found = path.read_bytes(), random.Random(1), 0
    for _ in range(flips):
        position, bit = draw.randrange(len(data)), draw.randrange(8)
        flipped = bytearray(data)
        flipped[position] ^= 1 << bit
        path.write_bytes(flipped)
        if verified(path).state == State.DAMAGED:
            found += 1
            continue
        loaded = torch.load(path, weights_only=True)
        assert loaded.keys() == state.keys(), (position, bit)
        for key, value in state.items():
            assert torch.equal(torch.as_tensor(loaded[key]), torch.as_tensor(value)), position
    assert found > flips / 2


def test_a_flipped_bit_is_found_or_harmless(tmp_path: Path) -> None:
    assert_found_or_harmless(tmp_path, 200)


@pytest.mark.long("tests/agent/checkpoints/test_flips.py::test_a_flipped_bit_is_found_or_harmless")
def test_no_flipped_bit_of_many_escapes(tmp_path: Path) -> None:
    assert_found_or_harmless(tmp_path, 5000)
