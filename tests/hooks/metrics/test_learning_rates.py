"""Learning rates are recorded from the optimizer's groups when they change, and now and then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.metrics.learning_rates import REPEATED_EVERY
from stepwatch.signals.records import Kind
from tests.hooks.conftest import metric_values, only_ring

torch = pytest.importorskip("torch", reason="optimizers are torch's")


def optimizer_of(*rates: float) -> Any:
    """An optimizer with a parameter for each rate."""
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in rates]
    for parameter in parameters:
        parameter.grad = torch.ones(2)
    groups = [{"params": [p], "lr": rate} for p, rate in zip(parameters, rates, strict=True)]
    return torch.optim.SGD(groups, lr=1.0)


def values_in(root: Path) -> dict[str, list[tuple[int, float]]]:
    reader = only_ring(root)
    tables = reader.read().rows
    reader.close()
    return metric_values(tables)


def test_a_rate_is_recorded_when_it_changes(watch: Watch, rings: Path) -> None:
    optimizer = optimizer_of(0.5)
    watch.attach(optimizer=optimizer)
    for step in range(2 * REPEATED_EVERY):
        with watch.step():
            optimizer.step()
        if step == 9:
            optimizer.param_groups[0]["lr"] = 0.25
    again = 10 + REPEATED_EVERY
    assert values_in(rings)["lr"] == [(0, 0.5), (10, 0.25), (again, 0.25)]
    assert watch.guard.errors == 0


def test_groups_with_other_rates_have_their_number(watch: Watch, rings: Path) -> None:
    optimizer = optimizer_of(0.5, 0.5, 0.125)
    watch.attach(optimizer=optimizer)
    with watch.step(), watch.phase("optimizer"):
        optimizer.step()
    assert values_in(rings) == {"lr": [(0, 0.5)], "lr/2": [(0, 0.125)]}


def test_the_trainers_own_rate_counts(watch: Watch, rings: Path) -> None:
    optimizer = optimizer_of(0.5)
    watch.attach(optimizer=optimizer)
    for _ in range(3):
        with watch.step() as step:
            step.record(lr=2.0)
            optimizer.step()
    assert values_in(rings)["lr"] == [(step, 2.0) for step in range(3)]


def test_only_the_first_optimizer_counts(watch: Watch, rings: Path) -> None:
    first, second = optimizer_of(0.5), optimizer_of(0.125)
    watch.attach(optimizer=[first, second])
    for _ in range(3):
        with watch.step():
            first.step()
            second.step()
    assert values_in(rings)["lr"] == [(0, 0.5)]


def test_a_rate_that_is_a_tensor_is_not_read(watch: Watch, rings: Path) -> None:
    optimizer = optimizer_of(0.5)
    optimizer.param_groups[0]["lr"] = torch.tensor(0.5)
    watch.attach(optimizer=optimizer)
    with watch.step():
        optimizer.step()
    assert Kind.METRIC not in only_ring(rings).read().rows
    assert watch.guard.errors == 0
