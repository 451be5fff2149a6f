"""Scalars become float32 numbers, or unknown: never a collective, never an error."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind
from tests.hooks.conftest import rows_in

torch = pytest.importorskip("torch", reason="tensors need torch")
F32 = float(np.finfo(np.float32).max)


class Placement:
    """What a DTensor reports of one mesh axis."""

    def __init__(self, replicate: bool) -> None:
        self._replicate = replicate

    def is_replicate(self) -> bool:
        return self._replicate


class Distributed:
    """The face of a DTensor that the hooks read."""

    def __init__(self, replicate: bool) -> None:
        self.placements = (Placement(True), Placement(replicate))

    def to_local(self) -> Any:
        return torch.tensor(2.5)


@pytest.mark.parametrize(
    ("value", "stored", "errors"),
    [
        (1.5, 1.5, 0),
        (2, 2.0, 0),
        (True, 1.0, 0),
        (F32, F32, 0),
        (-F32, -F32, 0),
        (1e39, math.inf, 0),
        (-1e300, -math.inf, 0),
        (math.inf, math.inf, 0),
        (1e-50, 0.0, 0),
        (math.nan, math.nan, 0),
        (10**400, math.nan, 1),
        (np.float32(2.5), 2.5, 0),
        (np.float64(1e39), math.inf, 0),
        (np.int64(7), 7.0, 0),
        (torch.tensor(2.5), 2.5, 0),
        (torch.tensor([[2.5]], dtype=torch.float64), 2.5, 0),
        (torch.tensor(1e39, dtype=torch.float64), math.inf, 0),
        (torch.tensor(3, dtype=torch.int64), 3.0, 0),
        (torch.tensor(2.5, dtype=torch.bfloat16, requires_grad=True), 2.5, 0),
        (torch.tensor(math.nan), math.nan, 0),
        (torch.tensor([1.0, 2.0]), math.nan, 1),
        (torch.tensor([]), math.nan, 1),
        (torch.tensor(1j), math.nan, 1),
        (torch.empty(1, device="meta"), math.nan, 1),
        (Distributed(replicate=True), 2.5, 0),
        (Distributed(replicate=False), math.nan, 1),
        ("1.0", math.nan, 1),
        ([1.0], math.nan, 1),
        (1j, math.nan, 1),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_recorded_value(
    watch: Watch, rings: Path, value: Any, stored: float, errors: int
) -> None:
    with watch.step() as step:
        step.record(loss=value, grad_norm=0.25)
    (row,) = rows_in(rings, Kind.STEP)
    assert np.array_equal(row["loss"], np.float32(stored), equal_nan=True)
    assert row["grad_norm"] == 0.25
    assert watch.guard.errors == errors


def test_a_value_given_later_replaces_and_none_keeps(watch: Watch, rings: Path) -> None:
    with watch.step() as step:
        step.record(loss=1.0)
        step.record(grad_norm=3.0)
        step.record(loss=2.0)
    (row,) = rows_in(rings, Kind.STEP)
    assert (row["loss"], row["grad_norm"]) == (2.0, 3.0)
