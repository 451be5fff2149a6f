"""`attach(optimizer=)` counts the time in `optimizer.step`, and changes nothing else of it."""

from __future__ import annotations

import copy
import inspect
import time
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.optimizers import steps_done
from stepwatch.signals.records import Kind

from .conftest import rows_in

torch = pytest.importorskip("torch", reason="optimizers are torch's")

SLEEP_SECONDS = 0.01
SLEEP_NS = 9_000_000


class Slow(torch.optim.SGD):  # type: ignore[misc,name-defined]
    """An optimizer that takes its time; it fails where its rate is negative."""

    def step(self, closure: Any = None, *, grad_scaler: Any = None) -> Any:
        """Sleep, then step."""
        time.sleep(SLEEP_SECONDS)
        if self.param_groups[0]["lr"] < 0:
            raise ArithmeticError("negative rate")
        return super().step(closure)


def new_optimizer(rate: float = 0.1) -> Any:
    """An optimizer of one parameter that has a gradient."""
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return Slow([parameter], lr=rate)


def test_an_unmarked_step_counts_as_the_phase_optimizer(watch: Watch, rings: Path) -> None:
    first_optimizer, second_optimizer = new_optimizer(), new_optimizer()
    watch.attach(optimizer=[first_optimizer, second_optimizer])
    watch.attach(optimizer=first_optimizer)
    with watch.step() as step, step.phase("other"):
        first_optimizer.step()
        second_optimizer.step()
    with watch.step() as step, step.phase("optimizer"):
        first_optimizer.step()
    rows = rows_in(rings, Kind.STEP)
    assert rows["optimizer_ns"][0] >= 2 * SLEEP_NS
    assert rows["optimizer_ns"][1] >= SLEEP_NS
    assert first_optimizer.param_groups[0]["params"][0].tolist() == pytest.approx([0.8, 0.8])
    assert watch.guard.errors == 0


def test_a_step_that_fails_leaves_the_clock_right(watch: Watch, rings: Path) -> None:
    optimizer = new_optimizer(rate=0.1)
    watch.attach(optimizer=optimizer)
    optimizer.param_groups[0]["lr"] = -1.0
    with watch.step(), pytest.raises(ArithmeticError):
        optimizer.step()
    with watch.step() as step, step.phase("forward"):
        time.sleep(SLEEP_SECONDS)
    rows = rows_in(rings, Kind.STEP)
    assert rows["optimizer_ns"].tolist()[1] == 0
    assert rows["forward_ns"][1] >= SLEEP_NS
    assert watch.guard.errors == 0


@pytest.mark.parametrize("attach_first", [True, False])
def test_a_learning_rate_schedule_works_as_without_hooks(watch: Watch, attach_first: bool) -> None:
    optimizer = new_optimizer()
    if attach_first:
        watch.attach(optimizer=optimizer)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    watch.attach(optimizer=optimizer)
    with watch.step():
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert watch.guard.errors == 0


def test_a_gradient_scaler_finds_the_same_arguments(watch: Watch) -> None:
    optimizer = new_optimizer()
    signature_before = str(inspect.signature(optimizer.step))
    watch.attach(optimizer=optimizer)
    assert str(inspect.signature(optimizer.step)) == signature_before


def test_a_copy_and_a_state_hold_nothing_of_the_hooks(watch: Watch) -> None:
    optimizer = new_optimizer()
    watch.attach(optimizer=optimizer)
    assert "step" not in vars(copy.deepcopy(optimizer))
    assert set(optimizer.state_dict()) == {"state", "param_groups"}


def test_after_close_a_step_is_only_a_step(watch: Watch, rings: Path) -> None:
    optimizer = new_optimizer()
    watch.attach(optimizer=optimizer)
    with watch.step():
        pass
    watch.close()
    optimizer.step()
    assert rows_in(rings, Kind.STEP)["optimizer_ns"].tolist() == [0]


def test_what_has_no_step_is_counted_and_raises_nothing(watch: Watch) -> None:
    watch.attach(optimizer=object())
    assert watch.guard.errors == 1


def test_an_optimizer_tells_how_many_steps_it_has_behind_it() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    assert steps_done(optimizer) is None
    for _ in range(3):
        weight.sum().backward()
        optimizer.step()
    loaded = torch.optim.AdamW([torch.ones(2, requires_grad=True)])
    loaded.load_state_dict(optimizer.state_dict())
    assert steps_done(loaded) == 3
    assert steps_done(torch.optim.SGD([weight])) is None
    assert steps_done(object()) is None


def test_a_count_on_a_device_is_left_there() -> None:
    optimizer = torch.optim.AdamW([torch.ones(2, requires_grad=True)])
    optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] = torch.ones((), device="meta")
    assert steps_done(optimizer) is None


def test_a_step_that_only_makes_state_is_no_training(watch: Watch, rings: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)  # replaces `step` as well
    watch.attach(model=model, optimizer=optimizer)
    with watch.step():
        assert steps_done(optimizer) is None
        get_optimizer_state_dict(model, optimizer)
        assert steps_done(optimizer) == 1, "torch made the state with a step"
    with watch.step():
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert rows_in(rings, Kind.STEP)["optimizer_ns"].astype(bool).tolist() == [False, True]
    values = rows_in(rings, Kind.METRIC)
    assert (values["step"].tolist(), values["value_0"].tolist()) == ([1], [0.1])
