"""Events in the orders that trainers produce them, and the phases and steps they make."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import Recorder
from stepwatch.hooks.recorder.timeline import Timeline
from stepwatch.signals.records import Kind
from tests.hooks.conftest import only_ring, rows_in

PIECE = 1000
_now = 0


class Optimizer:
    """Something that steps."""


@pytest.fixture
def recorder(watch: Watch) -> Recorder:
    """A recorder whose clock moves only while somebody works."""
    assert watch.ring is not None
    watch.timeline = Timeline(watch.ring, lambda: _now, watch.guard.misuse)
    return Recorder(watch)


def work() -> None:
    """Let one piece of time pass."""
    global _now
    _now += PIECE


def fetch(recorder: Recorder, came: bool = True) -> None:
    assert recorder.data_begins()
    work()
    recorder.data_ends(came=came)


def backward(recorder: Recorder) -> None:
    assert recorder.backward_begins()
    work()
    recorder.backward_ends()


def step(recorder: Recorder, optimizer: Optimizer) -> None:
    recorder.optimizer_begins(optimizer, closure=False)
    work()
    recorder.optimizer_ends(optimizer)


def phases(root: Path) -> list[dict[str, int]]:
    """For each step the pieces of time that each phase took, without those that took none."""
    names = ("other", "data", "forward", "backward", "optimizer", "checkpoint", "eval")
    return [
        {name: int(row[f"{name}_ns"]) // PIECE for name in names if row[f"{name}_ns"]}
        for row in rows_in(root, Kind.STEP)
    ]


USUAL = {"data": 1, "forward": 1, "backward": 1, "optimizer": 1}


def test_the_usual_loop(recorder: Recorder, rings: Path) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        fetch(recorder)
        work()
        backward(recorder)
        step(recorder, optimizer)
    assert phases(rings) == [USUAL] * 3
    assert only_ring(rings).hook_errors == 0


def test_an_evaluation_is_not_the_next_steps_forward(recorder: Recorder, rings: Path) -> None:
    optimizer = Optimizer()
    recorder.evaluation_begins()
    for _ in range(2):
        fetch(recorder)
        work()
    fetch(recorder, came=False)
    fetch(recorder)
    backward(recorder)
    step(recorder, optimizer)
    assert phases(rings) == [{"eval": 6, "backward": 1, "optimizer": 1}]


def test_batches_fetched_ahead_are_other_work(recorder: Recorder, rings: Path) -> None:
    for _ in range(2):
        fetch(recorder)
        work()
    backward(recorder)
    backward(recorder)
    step(recorder, Optimizer())
    assert phases(rings) == [{"data": 2, "other": 1, "forward": 1, "backward": 2, "optimizer": 1}]
    assert rows_in(rings, Kind.STEP)["microbatches"].tolist() == [2]


def test_a_closure_runs_forward_and_backward_inside_the_optimizer(
    recorder: Recorder, rings: Path
) -> None:
    optimizer = Optimizer()
    fetch(recorder)
    recorder.optimizer_begins(optimizer, closure=True)
    work()
    backward(recorder)
    work()
    recorder.optimizer_ends(optimizer)
    assert phases(rings) == [USUAL]


def test_the_first_of_several_optimizers_ends_the_step(recorder: Recorder, rings: Path) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(3):
        step(recorder, first)
        step(recorder, second)
    assert len(rows_in(rings, Kind.STEP)) == 3


def test_an_optimizer_that_goes_on_alone_takes_over(recorder: Recorder, rings: Path) -> None:
    warm_up, lasting = Optimizer(), Optimizer()
    step(recorder, warm_up)
    for _ in range(4):
        step(recorder, lasting)
    assert len(rows_in(rings, Kind.STEP)) == 4, "one went by before the takeover"


def test_an_optimizer_inside_an_optimizer_is_one_step(recorder: Recorder, rings: Path) -> None:
    outer, inner = Optimizer(), Optimizer()
    for _ in range(2):
        recorder.optimizer_begins(outer, closure=False)
        step(recorder, inner)
        recorder.optimizer_ends(outer)
    assert phases(rings) == [{"optimizer": 1}] * 2


def test_an_optimizer_that_raised_is_left_behind(recorder: Recorder, rings: Path) -> None:
    optimizer = Optimizer()
    recorder.optimizer_begins(optimizer, closure=False)
    fetch(recorder)
    work()
    backward(recorder)
    step(recorder, optimizer)
    assert phases(rings) == [USUAL]
    assert only_ring(rings).hook_errors == 0


def test_a_loader_inside_a_loader_and_a_backward_inside_a_backward(
    recorder: Recorder, rings: Path
) -> None:
    assert recorder.data_begins()
    assert not recorder.data_begins()
    recorder.data_ends(came=True)
    assert recorder.backward_begins()
    backward(recorder)
    recorder.backward_ends()
    step(recorder, Optimizer())
    assert rows_in(rings, Kind.STEP)["microbatches"].tolist() == [1]


def test_numbers_belong_to_the_step_they_were_recorded_in(recorder: Recorder, rings: Path) -> None:
    optimizer = Optimizer()
    recorder.record(loss=2.0, tokens=3)
    recorder.record(grad_norm=1.5, tokens=4)
    step(recorder, optimizer)
    step(recorder, optimizer)
    first, second = rows_in(rings, Kind.STEP)
    assert (first["loss"], first["grad_norm"], first["tokens"]) == (2.0, 1.5, 7)
    assert second["loss"] != second["loss"] and second["tokens"] == 0


def test_another_thread_is_not_the_training_thread(recorder: Recorder, rings: Path) -> None:
    answers: list[bool] = []

    def elsewhere() -> None:
        answers.extend((recorder.data_begins(), recorder.backward_begins(), recorder.save_begins()))
        recorder.optimizer_begins(self_made, closure=False)
        recorder.optimizer_ends(self_made)

    self_made = Optimizer()
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert answers == [False] * 3
    assert len(rows_in(rings, Kind.STEP)) == 0


def test_a_closed_watch_records_nothing(recorder: Recorder, watch: Watch, rings: Path) -> None:
    watch.close()
    assert not recorder.data_begins()
    assert not recorder.backward_begins()
    step(recorder, Optimizer())
    assert len(rows_in(rings, Kind.STEP)) == 0
