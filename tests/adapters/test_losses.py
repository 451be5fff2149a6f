"""A framework's own losses under `stepwatch run`: added up, or the last one, and of outer calls."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from stepwatch.hooks import Watch
from stepwatch.hooks.auto.losses import LossCall, Losses
from stepwatch.hooks.auto.router import Router
from stepwatch.signals.records import Kind
from tests.hooks.conftest import rows_in

FRAMEWORK = """
class Accelerator:
    def backward(self, loss):
        loss.backward()


class Trainer:
    def training_step(self, loss, parts=2):
        loss = loss / parts
        Accelerator().backward(loss)
        return {"loss": loss.detach()}


class Careless:
    def training_step(self, loss):
        return "no loss"
"""
CALLS = (
    LossCall("small_framework", "Trainer", "training_step", adds_up=True),
    LossCall("small_framework", "Accelerator", "backward", by_argument=True),
    LossCall("small_framework", "Careless", "training_step"),
    LossCall("small_framework", "Other", "training_step"),
)
OWNER = "STEPWATCH_TEST_OWNER"


@pytest.fixture
def router(rings: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Router]:
    """A router that waits for a sign of training."""
    monkeypatch.delenv(OWNER, raising=False)
    waiting = Router()
    waiting.wait_for_training(OWNER)
    yield waiting
    watch = waiting._watch
    if watch is not None:
        watch.close()


@pytest.fixture
def framework(router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A framework that is imported after the hooks began to wait for it."""
    (tmp_path / "small_framework.py").write_text(FRAMEWORK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    Losses(router, CALLS).start()
    monkeypatch.delitem(sys.modules, "small_framework", raising=False)
    return importlib.import_module("small_framework")


def loss(value: float) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True)


def end_step(router: Router) -> None:
    assert router.observer is not None
    router.observer.end_step()


def test_parts_add_up_and_a_whole_loss_is_the_last_one(
    router: Router, framework: Any, rings: Path
) -> None:
    trainer, accelerator = framework.Trainer(), framework.Accelerator()
    assert router.training() is not None
    for value in (2.0, 4.0):
        assert trainer.training_step(loss(value))["loss"].item() == value / 2
    end_step(router)
    trainer.training_step(loss(5.0), parts=1)
    end_step(router)
    for value in (2.0, 4.0):
        accelerator.backward(loss(value))
    end_step(router)
    accelerator.backward(loss=loss(7.0))
    end_step(router)
    end_step(router)
    losses = rows_in(rings, Kind.STEP)["loss"].tolist()
    assert losses[:4] == [3.0, 5.0, 4.0, 7.0] and math.isnan(losses[4])


def test_what_is_no_loss_is_counted_and_raises_nothing(
    router: Router, framework: Any, rings: Path
) -> None:
    assert framework.Careless().training_step(loss(1.0)) == "no loss"
    assert router.training() is not None
    assert framework.Careless().training_step(loss(1.0)) == "no loss"
    end_step(router)
    assert math.isnan(rows_in(rings, Kind.STEP)["loss"][0])
    with pytest.raises(AttributeError):
        framework.Accelerator().backward(3.0)


def test_an_adapter_or_a_line_of_code_has_the_last_word(
    watch: Watch, rings: Path, framework: Any, router: Router
) -> None:
    observer = router.lead_to(watch)
    observer.record(loss=1.5)
    framework.Accelerator().backward(loss(7.0))
    observer.end_step()
    assert rows_in(rings, Kind.STEP)["loss"].tolist() == [1.5]
