"""`stepwatch run` records what a trainer without a Watch logs to its real tracker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.conftest import metric_values, tables_in

from .conftest import RUN, Launch

pytest.importorskip("torch", reason="the programs train with torch")
REASON = "`make test-adapters` installs it"
PYTHON = [*RUN, "--", sys.executable, "-W", "ignore", "-c"]
TRAIN = """
import random, sys, threading, torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    loss = model(torch.ones(1, 2)).square().sum()
    loss.backward()
    optimizer.step()
    return loss
def train(log, steps=5):
    for number in range(steps):
        loss = step()
        log(number, loss)
        print(float(loss).hex())
"""
TENSORBOARD = (
    TRAIN
    + """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1])
def log(number, loss):
    writer.add_scalar("train/loss", loss.item(), number)
    writer.add_scalar("loss", loss, number)
    writer.add_scalar("accuracy", 0.0, number)
    writer.add_scalar("accuracy", number / 10, global_step=number)
"""
)


def recorded(rings: Path) -> dict[str, list[tuple[int, float]]]:
    """The metrics of the one rank but learning rates; its hooks met no error."""
    values = metric_values(tables_in(rings)[0])
    return {name: points for name, points in values.items() if not name.startswith("lr")}


@pytest.fixture
def tensorboard() -> Any:
    """TensorBoard's reader."""
    name = "tensorboard.backend.event_processing.event_accumulator"
    return pytest.importorskip(name, reason="needs the extra `tensorboard`")


def test_tensorboard(launch: Launch, rings: Path, tmp_path: Path, tensorboard: Any) -> None:
    program = TENSORBOARD + "train(log)\nwriter.close()"
    ended = launch(*PYTHON, program, str(tmp_path / "with"))
    losses = [float.fromhex(text) for text in ended.stdout.split()]
    values = recorded(rings)
    assert len(losses) == 5
    assert values["train/loss"] == [*enumerate(losses)], "in the step that ended before"
    assert values["logged/loss"] == values["train/loss"], "the step's own loss stays apart"
    assert values["accuracy"] == [(step, step / 10) for step in range(5)], "the last value counts"
    without = launch(sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "without"))
    assert without.stdout == ended.stdout, "losses are equal to the last bit"
    files = [
        tensorboard.EventAccumulator(str(tmp_path / name)).Reload() for name in ("with", "without")
    ]
    for tag in ("train/loss", "loss", "accuracy"):
        first, second = ([(e.step, e.value) for e in file.Scalars(tag)] for file in files)
        assert first == second and len(first) >= 5


def test_errors_and_other_threads_stay_the_trackers_own(
    launch: Launch, rings: Path, tmp_path: Path, tensorboard: Any
) -> None:
    program = (
        TENSORBOARD
        + """
def odd(number, loss):
    thread = threading.Thread(target=lambda: writer.add_scalar("system", 1.0, number))
    thread.start(); thread.join()
    for value in ("no number", torch.ones(3), None):
        try:
            writer.add_scalar("odd", value, number)
        except Exception as error:
            print("raised", type(error).__name__)
    writer.add_scalar("api_key=sk-12345678901234567890", 1.0, number)
    writer.add_scalar("x" * 60, 1.0, number)
    for index in range(100):
        writer.add_scalar(f"many/{index}", 1.0, number)
train(odd)
"""
    )
    ended = launch(*PYTHON, program, str(tmp_path / "with"))
    without = launch(sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "without"))
    assert ended.stdout == without.stdout and "raised" in ended.stdout
    values = recorded(rings)
    assert set(values) == {f"many/{index}" for index in range(48)}, "and no misuse of the hooks"


def test_a_closed_watch_leaves_the_tracker_as_it_was(
    launch: Launch, rings: Path, tmp_path: Path, tensorboard: Any
) -> None:
    program = (
        TENSORBOARD
        + """
before = SummaryWriter.add_scalar
train(log)
assert SummaryWriter.add_scalar is not before
from stepwatch.hooks import watch
watch._active().close()
assert SummaryWriter.add_scalar is before
log(9, step())
"""
    )
    ended = launch(*PYTHON, program, str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert [step for step, _ in recorded(rings)["accuracy"]] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("call", ["wandb.log", "run.log"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_wandb(launch: Launch, rings: Path, tmp_path: Path, call: str, late: bool) -> None:
    pytest.importorskip("wandb", reason=REASON)
    init = "import wandb\nrun = wandb.init(project='p', dir=sys.argv[1])\n"
    log = f"""
def log(number, loss):
    {call}({{"train/loss": loss.item(), "note": "text", "nested": {{"a": 1}}}}, step=number)
"""
    before, after = ("import wandb\nstep()\n", init) if late else (init, "")
    program = TRAIN + before + after + log + "train(log)\nrun.finish()"
    environ = {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    ended = launch(*PYTHON, program, str(tmp_path), **environ)
    losses = [float.fromhex(text) for text in ended.stdout.split()]
    values = recorded(rings)
    assert len(losses) == 5, ended.stderr
    assert values["train/loss"] == [*enumerate(losses, start=int(late))]
    assert [*values] == ["train/loss"]


@pytest.mark.parametrize(
    "call", ["log_metric('train/loss', loss.item())", "log_metrics({'train/loss': loss.item()})"]
)
def test_mlflow(launch: Launch, rings: Path, tmp_path: Path, call: str) -> None:
    pytest.importorskip("mlflow", reason=REASON)
    log = f"def log(number, loss):\n    mlflow.{call}\n"
    program = TRAIN + "import mlflow\n" + log + "mlflow.start_run()\ntrain(log)"
    environ = {
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_TRACKING_URI": tmp_path.joinpath("mlruns").as_uri(),
    }
    ended = launch(*PYTHON, program, **environ)
    losses = [float.fromhex(text) for text in ended.stdout.split()]
    values = recorded(rings)
    assert len(losses) == 5, ended.stderr
    assert values["train/loss"] == [*enumerate(losses)]
