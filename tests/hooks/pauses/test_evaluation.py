"""`model.eval()` of the model that trains is an evaluation until it trains again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver
from stepwatch.hooks.core import Timeline
from stepwatch.signals.records import Kind, StepFlag
from tests.hooks.conftest import rows_in

from .conftest import Live

torch = pytest.importorskip("torch", reason="models are torch's")

PIECE = 1000


class Clock:
    """Moves where a test says so."""

    now = 0

    def __call__(self) -> int:
        """The moment in ns."""
        return self.now


def network() -> Any:
    """A model of two layers, and a norm that is a small part of it."""
    return torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8)
    )


@pytest.fixture
def model(watch: Watch) -> Any:
    """A model that the Watch knows."""
    new_model = network()
    watch.attach(model=new_model)
    return new_model


@pytest.fixture
def clock(watch: Watch) -> Clock:
    """A clock of the Watch that moves only where the test moves it."""
    moved = Clock()
    ring = watch.recorder.ring
    assert ring is not None
    watch.recorder.clock = moved
    watch.recorder.timeline = Timeline(ring, moved, watch.guard.misuse)
    watch.steps.phases.renew()
    return moved


def train(watch: Watch) -> None:
    """One step that marks a phase."""
    with watch.step() as step, step.phase("forward"):
        pass


def test_eval_is_live_until_train_and_counts_as_evaluation(
    watch: Watch, model: Any, clock: Clock, rings: Path, live: Live
) -> None:
    train(watch)
    model.eval()
    assert live() == "eval"
    clock.now += PIECE
    with watch.phase("data"):
        assert live() == "data"
    assert live() == "eval"
    model.train()
    assert live() == "other"
    clock.now += PIECE
    train(watch)
    rows = rows_in(rings, Kind.STEP)
    assert rows["eval_ns"].tolist() == [0, PIECE]
    assert rows["other_ns"].tolist() == [0, PIECE]
    assert rows["flags"][1] & StepFlag.AFTER_PAUSE
    assert watch.guard.errors == 0


def test_an_evaluation_ends_with_the_next_step_where_nobody_calls_train(
    watch: Watch, model: Any, live: Live
) -> None:
    model.eval()
    with watch.step():
        assert live() == "other"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch.attach(optimizer=optimizer)
    model.eval()
    assert live() == "eval"
    optimizer.step()
    assert live() == "other"


def test_a_wrapper_of_the_model_counts_as_the_model(watch: Watch, model: Any, live: Live) -> None:
    torch.nn.Sequential(model).eval()
    assert live() == "eval"
    torch.nn.Sequential(model).train()
    assert live() == "other"


def test_a_model_is_known_by_what_its_optimizer_holds(watch: Watch, live: Live) -> None:
    model = network()
    watch.attach(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    model.eval()
    assert live() == "eval"


def test_a_teacher_an_average_and_a_frozen_part_are_no_evaluation(
    watch: Watch, model: Any, live: Live
) -> None:
    teacher = copy.deepcopy(model).requires_grad_(False)
    teacher.eval()
    assert live() == "other"
    model[1].eval()
    assert live() == "other"
    with torch.no_grad():
        for _ in range(3):
            teacher(torch.ones(2, 8))
            for parameter, its in zip(model.parameters(), teacher.parameters(), strict=True):
                its.lerp_(parameter, 0.1)
    assert live() == "other"


def test_a_phase_that_the_trainer_marks_stays_what_it_is(
    watch: Watch, model: Any, live: Live
) -> None:
    with watch.phase("checkpoint"):
        model.eval()
        assert live() == "checkpoint"
    assert live() == "eval"
    with watch.phase("forward"):
        model.train()
        assert live() == "forward"
    assert live() == "other"
    assert watch.guard.errors == 0


def test_a_switch_that_fails_reaches_the_trainer_and_changes_nothing(
    watch: Watch, model: Any, live: Live
) -> None:
    with pytest.raises(ValueError, match="training mode"):
        model.train(mode="no")
    assert live() == "other"
    assert watch.guard.errors == 0


def test_calls_without_gradients_in_a_row_are_an_evaluation(
    watch: Watch, clock: Clock, live: Live
) -> None:
    from stepwatch.hooks.pauses.evaluation import LEAST_CALLS, LEAST_NS

    evaluation = watch.instruments.pauses.evaluation
    evaluation.called(gradients=False, training=True)
    evaluation.called(gradients=False, training=True)
    assert live() == "other", "a reference's calls, which are over at once"
    clock.now += LEAST_NS
    evaluation.called(gradients=False, training=True)
    assert live() == "eval"
    evaluation.called(gradients=True, training=True)
    assert live() == "other"
    for _ in range(LEAST_CALLS):
        clock.now += LEAST_NS
        evaluation.called(gradients=False, training=True)
        assert live() == "other", "backward has yet to come"


def test_one_function_that_evaluates_inside_another_is_one_evaluation(
    watch: Watch, model: Any, live: Live
) -> None:
    evaluation = watch.instruments.pauses.evaluation
    with watch.phase("forward"):
        with evaluation.scope():
            assert live() == "eval"
            model.eval()
            with evaluation.scope():
                pass
            model.train()
            assert live() == "eval"
        assert live() == "forward"
    assert live() == "other"


@pytest.fixture
def loop(watch: Watch, clock: Clock) -> LoopObserver:
    """What follows a trainer that marks nothing."""
    return LoopObserver(watch.steps)


def fetch(loop: LoopObserver, *, came: bool = True) -> None:
    """Ask the loader for a batch."""
    assert loop.data_begins()
    loop.data_ends(came=came)


def step(loop: LoopObserver, optimizer: Any) -> None:
    """Train on the batch that came."""
    assert loop.backward_begins()
    loop.backward_ends()
    loop.optimizer_begins(optimizer, closure=False)
    loop.optimizer_ends(optimizer)


def test_a_batch_under_evaluation_is_not_shown_as_forward(
    watch: Watch, loop: LoopObserver, clock: Clock, rings: Path, live: Live
) -> None:
    model = network()
    watch.attach()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fetch(loop)
    assert live() == "forward"
    step(loop, optimizer)
    model.eval()
    for _ in range(2):
        fetch(loop)
        clock.now += PIECE
        assert live() == "eval"
    fetch(loop, came=False)
    fetch(loop)
    model.train()
    assert live() == "forward", "the batch that came is trained on"
    clock.now += PIECE
    step(loop, optimizer)
    row = rows_in(rings, Kind.STEP)[1]
    assert (row["eval_ns"], row["forward_ns"], row["other_ns"]) == (2 * PIECE, PIECE, 0)


def test_a_loader_read_without_gradients_is_an_evaluation(
    loop: LoopObserver, clock: Clock, rings: Path, live: Live
) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fetch(loop)
    step(loop, optimizer)
    with torch.inference_mode():
        fetch(loop)
        clock.now += PIECE
        assert live() == "eval"
        fetch(loop, came=False)
    fetch(loop)
    assert live() == "forward"
    step(loop, optimizer)
    assert rows_in(rings, Kind.STEP)["eval_ns"].tolist() == [0, PIECE]


def test_a_trainer_that_fetches_without_gradients_is_learnt(loop: LoopObserver, live: Live) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for shown in ("eval", "forward"):
        with torch.no_grad():
            fetch(loop)
        assert live() == shown
        step(loop, optimizer)


def test_batches_of_a_wrapped_model_called_without_gradients_only(
    loop: LoopObserver, clock: Clock, rings: Path, live: Live
) -> None:
    optimizer = torch.optim.SGD(network().parameters(), lr=0.1)
    fetch(loop)
    loop.model_inferred()  # a reference's part of the step
    step(loop, optimizer)
    fetch(loop)
    loop.model_inferred()
    clock.now += PIECE
    fetch(loop)
    assert live() == "eval"
    loop.model_inferred()
    clock.now += PIECE
    fetch(loop, came=False)
    step(loop, optimizer)
    assert rows_in(rings, Kind.STEP)["eval_ns"].tolist() == [0, 2 * PIECE]


def test_a_compiled_function_switches_the_model_within_one_graph(watch: Watch, model: Any) -> None:
    def evaluated(batch: Any) -> Any:
        model.eval()
        answer = model(batch)
        model.train()
        return answer

    compiled = torch.compile(evaluated, fullgraph=True, backend="eager")
    assert compiled(torch.ones(4, 8)).shape == (4, 8)
    assert watch.guard.errors == 0


def test_a_model_that_trains_in_evaluation_mode_has_its_backward(
    watch: Watch, model: Any, rings: Path
) -> None:
    with watch.step():
        model.eval()
        loss = model(torch.ones(4, 8)).sum()
        loss.backward()
    watch.close()
    row = rows_in(rings, Kind.STEP)
    assert row["backward_ns"] > 0
