"""The diary of a run and what it tells at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stepwatch.trainer.checkpoint.saver import Attempt
from stepwatch.trainer.history import HISTORY_NAME, History, StepLine
from stepwatch.trainer.lineage import run_identity, run_manifest
from stepwatch.trainer.options import Options
from stepwatch.trainer.peak import model_flops_utilisation, peak_flops
from stepwatch.trainer.result import known, this_attempt, whole_run


def _line(step: int, loss: float = 2.0, seconds: float = 0.5) -> StepLine:
    return StepLine(step, loss, 1.0, 1e-3, seconds, 1000.0 + step)


Opener = Callable[..., History]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens the diary, again and again, with some steps added; closes all of them at the end."""
    with ExitStack() as stack:

        def opened_history(added: int = 0) -> History:
            history = stack.enter_context(closing(History(tmp_path)))
            for step in range(added):
                history.append(_line(step))
            return history

        yield opened_history


def test_a_killed_run_keeps_every_line(opened: Opener) -> None:
    opened(3)
    assert [line.step for line in opened().steps] == [0, 1, 2]


def test_a_resume_drops_what_will_be_trained_again_and_counts_it(opened: Opener) -> None:
    opened(7).checkpoint(Attempt(4, verified=True))
    history = opened()
    line = history.resume(4, now=1016.0)
    assert (line.from_step, line.steps_lost, line.seconds) == (4, 3, 10.0)
    history.append(_line(4))
    again = opened()
    assert [step.step for step in again.steps] == [0, 1, 2, 3, 4]
    assert again.resumes == [line]
    assert again.checkpoints[0]["step"] == 4


def test_a_torn_last_line_is_left_out(opened: Opener, tmp_path: Path) -> None:
    opened(2)
    with (tmp_path / HISTORY_NAME).open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert len(opened().steps) == 2


def test_starting_anew_forgets(opened: Opener) -> None:
    opened(2).restart()
    assert opened().steps == []


def test_the_result_tells_the_whole_run(opened: Opener) -> None:
    history = opened(3)
    history.append(_line(3, loss=float("nan")))
    result = whole_run(history)
    assert result["losses"] == [2.0, 2.0, 2.0, None]
    assert (result["loss_first"], result["loss_last"]) == (2.0, None)
    assert result["checkpoints"] == result["resumes"] == []


def test_speed_leaves_the_first_step_out() -> None:
    lines = [_line(0, seconds=60.0), *(_line(step, seconds=0.5) for step in range(1, 5))]
    speed = this_attempt(lines, 1000)
    assert speed["tokens_per_second"] == pytest.approx(2000.0)
    assert speed["step_seconds"] == {"p50": 0.5, "p95": 0.5, "p99": 0.5}
    assert this_attempt([], 1000)["tokens_per_second"] is None
    assert known(float("inf")) is None


def test_utilisation_is_unknown_where_the_peak_is() -> None:
    assert peak_flops("cpu", "bf16") is None
    assert peak_flops("NVIDIA H200", "fp32") is None
    peak = peak_flops("NVIDIA H200", "bf16")
    assert peak == pytest.approx(989.5e12)
    assert model_flops_utilisation(None, 1e9, 1, peak) is None
    assert model_flops_utilisation(1e5, 1e9, 1, None) is None
    assert model_flops_utilisation(98_950.0, 1e10, 2, peak) == pytest.approx(0.5)


def test_the_run_manifest_holds_no_secret() -> None:
    environment = {"WORLD_SIZE": "4", "AWS_SECRET_ACCESS_KEY": "hush", "TOKEN": "hush"}
    manifest = run_manifest(Options(), "d" * 64, environment)
    assert "hush" not in str(manifest)
    assert manifest["environment"]["WORLD_SIZE"] == "4"
    assert manifest["data_sha256"] == "d" * 64
    assert manifest["configuration"]["run"]["seed"] == manifest["seed"]


def test_the_identity_is_what_a_resume_needs_to_be_equal() -> None:
    identity = run_identity(Options(), "d")
    assert {"model.layers", "parallel.batch", "run.seed", "data.sha256"} <= set(identity)
    assert not any("mesh" in key or "steps" in key for key in identity)
