"""Forward and backward of a wrapped model are found where the trainer marks neither."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="models need torch")

import torch
from torch.utils.checkpoint import checkpoint

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import follow
from stepwatch.signals.records import Kind, Phase
from tests.hooks.conftest import Rows, rows_in

PAUSE = 0.01


class Sleeps(torch.autograd.Function):
    """Passes on what it gets, and takes `PAUSE` seconds for it in either direction."""

    @staticmethod
    def forward(context: Any, tensor: Any) -> Any:
        time.sleep(PAUSE)
        return tensor.clone()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        time.sleep(PAUSE)
        return gradient


class Model(torch.nn.Module):
    """Has the mark of what DistributedDataParallel wraps."""

    require_backward_grad_sync = True
    error: BaseException | None = None

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, tensor: Any) -> Any:
        """The output of two layers, late, or the error."""
        if self.error is not None:
            raise self.error
        delayed_function: Any = Sleeps
        return self.head(delayed_function.apply(self.layer(tensor)))


@pytest.fixture
def model(watch: Watch) -> Any:
    """A watched model."""
    new_model = Model()
    watch.attach(model=new_model)
    return new_model


def steps_of(watch: Watch, rings: Path) -> Rows:
    assert watch.guard.errors == 0
    watch.close()
    return rows_in(rings, Kind.STEP)


def train(model: Any) -> None:
    model(torch.ones(2, 4)).sum().backward()


def test_a_step_without_marks_has_its_forward_and_its_backward(
    watch: Watch, model: Any, rings: Path
) -> None:
    for _ in range(3):
        with watch.step():
            train(model)
            time.sleep(PAUSE)
    rows = steps_of(watch, rings)
    for phase in ("forward_ns", "backward_ns", "other_ns"):
        assert (rows[phase] >= PAUSE * 1e9).all(), phase
    parts = np.sum([rows[f"{phase.name.lower()}_ns"] for phase in Phase], axis=0)
    assert (parts == rows["duration_ns"]).all()


def test_phases_that_the_trainer_marks_stay_as_they_are(
    watch: Watch, model: Any, rings: Path
) -> None:
    with watch.step() as step:
        with step.phase("data"):
            train(model)
        began = time.monotonic_ns()
        with step.phase("forward"):
            loss = model(torch.ones(2, 4)).sum()
        most = time.monotonic_ns() - began
        with step.phase("backward"):
            loss.backward()
    rows = steps_of(watch, rings)
    assert rows["data_ns"] >= 2 * PAUSE * 1e9
    assert rows["forward_ns"] <= most and rows["backward_ns"] >= PAUSE * 1e9


@pytest.mark.parametrize("error", [ValueError("bad batch"), KeyboardInterrupt()])
def test_a_forward_that_raises_is_over(
    error: BaseException, watch: Watch, model: Any, rings: Path
) -> None:
    with watch.step():
        model.error = error
        with pytest.raises(type(error)):
            model(torch.ones(2, 4))
        model.error = None
        train(model)
        time.sleep(PAUSE)
    rows = steps_of(watch, rings)
    assert rows["other_ns"] >= PAUSE * 1e9
    assert rows["backward_ns"] >= PAUSE * 1e9


def test_a_backward_that_raises_is_over(watch: Watch, model: Any, rings: Path) -> None:
    with watch.step():
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        with pytest.raises(RuntimeError):
            loss.backward()
        time.sleep(PAUSE)
    assert steps_of(watch, rings)["other_ns"] >= PAUSE * 1e9


def test_what_backward_computes_again_is_backward(watch: Watch, model: Any, rings: Path) -> None:
    tensor = torch.ones(2, 4, requires_grad=True)
    with watch.step():
        checkpoint(model, tensor, use_reentrant=False).sum().backward()
    rows = steps_of(watch, rings)
    assert rows["backward_ns"] >= 2 * PAUSE * 1e9


def test_a_call_without_gradients_is_no_forward(watch: Watch, model: Any, rings: Path) -> None:
    with watch.step(), torch.no_grad():
        model(torch.ones(2, 4))
    assert steps_of(watch, rings)["forward_ns"] == 0


def test_a_model_that_nothing_wraps_gets_no_hook(watch: Watch) -> None:
    plain = torch.nn.Linear(4, 4)
    watch.attach(model=plain)
    assert not plain._forward_hooks and not plain._forward_pre_hooks


def test_backward_is_that_of_torch_again_after_close(watch: Watch, model: Any) -> None:
    assert hasattr(torch.autograd.backward, "__wrapped__")
    watch.close()
    assert not hasattr(torch.autograd.backward, "__wrapped__")
    train(model)


def test_a_copy_of_the_model_is_not_watched(watch: Watch, model: Any, rings: Path) -> None:
    with watch.step():
        copy.deepcopy(model)(torch.ones(2, 4))
    assert steps_of(watch, rings)["forward_ns"] == 0


def test_whoever_follows_the_loop_finds_the_phases_alone(
    watch: Watch, model: Any, rings: Path
) -> None:
    observer = follow(watch, boundaries=False)
    assert observer is not None
    observer.forward_begins()
    train(model)
    observer.end_step()
    rows = steps_of(watch, rings)
    assert rows["forward_ns"] >= PAUSE * 1e9 and rows["backward_ns"] >= PAUSE * 1e9
