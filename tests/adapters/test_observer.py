"""Events in the orders that trainers produce them, and the phases and steps they make."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver
from stepwatch.hooks.core import Timeline
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.hooks.conftest import only_ring, rows_in

PIECE = 1000
_now = 0


class Optimizer:
    """An optimizer without state."""


@pytest.fixture
def observer(watch: Watch) -> LoopObserver:
    """An observer whose clock moves only during work."""
    ring = watch.recorder.ring
    assert ring is not None
    watch.recorder.timeline = Timeline(ring, lambda: _now, watch.guard.misuse)
    return LoopObserver(watch.steps)


def work() -> None:
    """Let one unit of time pass."""
    global _now
    _now += PIECE


def fetch(observer: LoopObserver, came: bool = True) -> None:
    assert observer.data_begins()
    work()
    observer.data_ends(came=came)


def backward(observer: LoopObserver) -> None:
    assert observer.backward_begins()
    work()
    observer.backward_ends()


def step(observer: LoopObserver, optimizer: Optimizer) -> None:
    observer.optimizer_begins(optimizer, closure=False)
    work()
    observer.optimizer_ends(optimizer)


def phases(root: Path) -> list[dict[str, int]]:
    """Return each step's pieces of time by phase, without empty phases."""
    names = ("other", "data", "forward", "backward", "optimizer", "checkpoint", "eval")
    return [
        {name: int(row[f"{name}_ns"]) // PIECE for name in names if row[f"{name}_ns"]}
        for row in rows_in(root, Kind.STEP)
    ]


USUAL = {"data": 1, "forward": 1, "backward": 1, "optimizer": 1}


def test_the_usual_loop(observer: LoopObserver, rings: Path) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        fetch(observer)
        work()
        backward(observer)
        step(observer, optimizer)
    assert phases(rings) == [USUAL] * 3
    assert only_ring(rings).hook_errors == 0


def test_an_evaluation_is_not_the_next_steps_forward(
    watch: Watch, observer: LoopObserver, rings: Path
) -> None:
    optimizer = Optimizer()
    watch.instruments.pauses.evaluation.begins()
    for _ in range(2):
        fetch(observer)
        work()
    fetch(observer, came=False)
    fetch(observer)
    backward(observer)
    step(observer, optimizer)
    assert phases(rings) == [{"eval": 6, "backward": 1, "optimizer": 1}]


def test_batches_fetched_ahead_are_other_work(observer: LoopObserver, rings: Path) -> None:
    for _ in range(2):
        fetch(observer)
        work()
    backward(observer)
    backward(observer)
    step(observer, Optimizer())
    assert phases(rings) == [{"data": 2, "other": 1, "forward": 1, "backward": 2, "optimizer": 1}]
    assert rows_in(rings, Kind.STEP)["microbatches"].tolist() == [2]


def test_what_follows_a_wrapped_model_is_its_forward_only_if_a_loader_brought_the_batch(
    observer: LoopObserver, rings: Path
) -> None:
    model, optimizer = torch.nn.Linear(1, 1), Optimizer()
    for loader in (False, True):
        for _ in range(2):
            if loader:
                fetch(observer)
            observer.model_called(model)
            work()
            observer.model_returned()
            work()  # its loss, or the next batch, which a trainer without a loader reads here
            backward(observer)
        step(observer, optimizer)
    by_hand, from_loader = phases(rings)
    assert by_hand == {"other": 2, "forward": 2, "backward": 2, "optimizer": 1}
    assert from_loader == {"data": 2, "forward": 4, "backward": 2, "optimizer": 1}


def test_models_called_in_turn_before_one_backward_are_forward(
    observer: LoopObserver, rings: Path
) -> None:
    model = torch.nn.Linear(1, 1)
    for _ in range(2):
        observer.model_called(model)
        work()
        observer.model_returned()
        work()
    observer.model_inferred()  # a reference, in the middle of a step
    backward(observer)
    step(observer, Optimizer())
    assert phases(rings) == [{"other": 2, "forward": 2, "backward": 1, "optimizer": 1}]


def test_a_closure_runs_forward_and_backward_inside_the_optimizer(
    observer: LoopObserver, rings: Path
) -> None:
    optimizer = Optimizer()
    fetch(observer)
    observer.optimizer_begins(optimizer, closure=True)
    work()
    backward(observer)
    work()
    observer.optimizer_ends(optimizer)
    assert phases(rings) == [USUAL]


def test_the_first_of_several_optimizers_ends_the_step(observer: LoopObserver, rings: Path) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(3):
        step(observer, first)
        step(observer, second)
    assert len(rows_in(rings, Kind.STEP)) == 3


def test_an_optimizer_that_goes_on_alone_takes_over(observer: LoopObserver, rings: Path) -> None:
    warm_up, lasting = Optimizer(), Optimizer()
    step(observer, warm_up)
    for _ in range(4):
        step(observer, lasting)
    assert len(rows_in(rings, Kind.STEP)) == 4, "one went by before the takeover"


def test_an_optimizer_inside_an_optimizer_is_one_step(observer: LoopObserver, rings: Path) -> None:
    outer, inner = Optimizer(), Optimizer()
    for _ in range(2):
        observer.optimizer_begins(outer, closure=False)
        step(observer, inner)
        observer.optimizer_ends(outer)
    assert phases(rings) == [{"optimizer": 1}] * 2


def test_an_optimizer_that_raised_is_left_behind(observer: LoopObserver, rings: Path) -> None:
    optimizer = Optimizer()
    observer.optimizer_begins(optimizer, closure=False)
    fetch(observer)
    work()
    backward(observer)
    step(observer, optimizer)
    assert phases(rings) == [USUAL]
    assert only_ring(rings).hook_errors == 0


def test_a_loader_inside_a_loader_and_a_backward_inside_a_backward(
    observer: LoopObserver, rings: Path
) -> None:
    assert observer.data_begins()
    assert not observer.data_begins()
    observer.data_ends(came=True)
    assert observer.backward_begins()
    backward(observer)
    observer.backward_ends()
    step(observer, Optimizer())
    assert rows_in(rings, Kind.STEP)["microbatches"].tolist() == [1]


def test_numbers_belong_to_the_step_they_were_recorded_in(
    observer: LoopObserver, rings: Path
) -> None:
    optimizer = Optimizer()
    observer.record(loss=2.0, tokens=3)
    observer.record(grad_norm=1.5, tokens=4)
    step(observer, optimizer)
    step(observer, optimizer)
    first, second = rows_in(rings, Kind.STEP)
    assert (first["loss"], first["grad_norm"], first["tokens"]) == (2.0, 1.5, 7)
    assert second["loss"] != second["loss"] and second["tokens"] == 0


def test_another_thread_is_not_the_training_thread(observer: LoopObserver, rings: Path) -> None:
    answers: list[bool] = []

    def elsewhere() -> None:
        answers.extend((observer.data_begins(), observer.backward_begins()))
        observer.optimizer_begins(self_made, closure=False)
        observer.optimizer_ends(self_made)

    self_made = Optimizer()
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert answers == [False] * 2
    assert len(rows_in(rings, Kind.STEP)) == 0


def test_a_closed_watch_records_nothing(observer: LoopObserver, watch: Watch, rings: Path) -> None:
    watch.close()
    assert not observer.data_begins()
    assert not observer.backward_begins()
    step(observer, Optimizer())
    assert len(rows_in(rings, Kind.STEP)) == 0


class LoadedOptimizer(Optimizer):
    """An optimizer whose state was loaded from a checkpoint."""

    state = {"weight": {"step": 120.0}}  # noqa: RUF012


@pytest.mark.parametrize(("first_step", "numbers"), [(None, [120, 121]), (60, [60, 61])])
def test_a_resumed_run_counts_on_unless_the_trainer_numbers_it(
    watch: Watch, observer: LoopObserver, rings: Path, first_step: int | None, numbers: list[int]
) -> None:
    if first_step is not None:
        watch.start_at(first_step)
    optimizer = LoadedOptimizer()
    for _ in numbers:
        backward(observer)
        step(observer, optimizer)
    assert rows_in(rings, Kind.STEP)["step"].tolist() == numbers
    life = rows_in(rings, Kind.LIFECYCLE)
    assert life["value"][life["event"] == LifecycleEvent.RESUME].tolist() == numbers[:1]
    assert watch.guard.errors == 0


def test_the_tokens_of_a_batch_count_once_a_backward_follows(
    watch: Watch, observer: LoopObserver, rings: Path
) -> None:
    evaluation = watch.instruments.pauses.evaluation
    optimizer = Optimizer()
    for _ in range(2):  # two batches are fetched, then both are trained on
        fetch(observer)
        observer.batch_holds(8)
    backward(observer)
    backward(observer)
    step(observer, optimizer)
    evaluation.begins()
    fetch(observer)
    observer.batch_holds(100)
    fetch(observer, came=False)
    evaluation.ends()
    fetch(observer)
    observer.batch_holds(8)
    backward(observer)
    step(observer, optimizer)
    with evaluation.scope():
        observer.batch_holds(100)
    backward(observer)
    step(observer, optimizer)
    assert rows_in(rings, Kind.STEP)["tokens"].tolist() == [16, 8, 0]
