"""A loss scaler is found where it is, and only one that scales excuses anything."""

from __future__ import annotations

import gc

import pytest

from stepwatch.hooks.guard import Guard
from stepwatch.hooks.numerics.loss_scalers import LossScalers

torch = pytest.importorskip("torch", reason="its scalers are searched for")


def test_only_a_scaler_that_scaled_a_loss_counts_and_only_while_it_lives() -> None:
    gc.collect()
    off, idle = torch.amp.GradScaler("cpu", enabled=False), torch.amp.GradScaler("cpu")
    scalers = LossScalers(Guard())
    assert not scalers.in_use()
    idle.scale(off.scale(torch.ones(())))
    assert scalers.in_use()
    del idle
    gc.collect()
    assert not scalers.in_use() and scalers.guard.errors == 0


def test_a_subclass_is_a_scaler_too() -> None:
    scaler = type("Own", (torch.amp.GradScaler,), {})("cpu")
    scaler.scale(torch.ones(()))
    assert LossScalers(Guard()).in_use()
