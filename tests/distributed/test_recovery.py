"""Runs that lose a rank, are preempted or change their mesh, and continue with the same losses."""

from __future__ import annotations

import random
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import read_until

TWO_BY_TWO = ("--mesh", "pp=2,dp_shard=2")
TWO = ("--mesh", "dp_shard=2")


@pytest.mark.parametrize(
    ("mesh", "world"), [(TWO, 2), pytest.param(TWO_BY_TWO, 4, marks=pytest.mark.matrix)]
)
@pytest.mark.long(
    "tests/distributed/test_damage.py::test_the_run_prints_what_it_rejected_and_resumes_from_an_older_checkpoint",
    "tests/trainer/run/test_launch.py::test_the_torchrun_command_has_ranks_restarts_and_rendezvous",
    "tests/trainer/run/test_resume.py::test_a_resume_reports_the_lost_steps",
)
def test_a_killed_rank_changes_no_loss(
    trainer: Any, straight: Callable[..., Any], mesh: tuple[str, ...], world: int
) -> None:
    flags = (*mesh, "--steps", "20")
    rank = random.randrange(world)
    fault = f"kill:rank={rank},step=17"
    finished = trainer.train(
        *flags, "--checkpoint-every", "10", "--restarts", "1", "--fault", fault
    )
    assert finished.losses == straight(*flags).losses, f"rank {rank} was killed"
    (resume,) = finished.result["resumes"]
    assert resume["from_step"] == 10
    assert 6 <= resume["steps_lost"] <= 7
    assert resume["seconds"] > 0
    assert [row["step"] for row in finished.result["checkpoints"]] == [10, 20]
    assert all(row["verified"] for row in finished.result["checkpoints"])


@pytest.fixture(scope="module")
def run_dir_of_six_steps(
    tmp_path_factory: pytest.TempPathFactory, make_trainer: Callable[[Path], Any]
) -> Path:
    """The directory of a run of six steps on four ranks."""
    trainer = make_trainer(tmp_path_factory.mktemp("saved"))
    trainer.train_forked(*TWO_BY_TWO, "--steps", "6")
    run_dir: Path = trainer.run_dir
    return run_dir


@pytest.mark.parametrize(
    "mesh",
    [
        "dp_shard=2",
        pytest.param(
            "pp=1",
            marks=pytest.mark.long(
                "tests/distributed/test_recovery.py::test_a_checkpoint_of_four_ranks_resumes_on_another_mesh"
            ),
        ),
        pytest.param("tp=2", marks=pytest.mark.matrix),
        pytest.param("pp=2,dp_replicate=2", marks=pytest.mark.matrix),
    ],
)
def test_a_checkpoint_of_four_ranks_resumes_on_another_mesh(
    run_dir_of_six_steps: Path, trainer: Any, straight: Callable[..., Any], mesh: str
) -> None:
    shutil.copytree(run_dir_of_six_steps, trainer.run_dir)
    finished = trainer.train_forked("--mesh", mesh, "--steps", "12")
    expected = straight(*TWO_BY_TWO, "--steps", "12").losses
    assert finished.result["resumes"][0]["from_step"] == 6
    assert finished.losses == pytest.approx(expected, abs=2e-5)


def _torchrun(trainer: Any, world: int, *flags: str) -> list[str]:
    command = trainer.command(*flags)
    words = command[command.index("train") + 1 :]
    run = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    return [sys.executable, *run, "-m", "stepwatch.trainer", *words]


@pytest.mark.parametrize(
    ("mesh", "world"), [(TWO, 2), pytest.param(TWO_BY_TWO, 4, marks=pytest.mark.matrix)]
)
@pytest.mark.long(
    "tests/distributed/test_damage.py::test_the_run_prints_what_it_rejected_and_resumes_from_an_older_checkpoint",
    "tests/trainer/run/test_preemption.py::test_sigterm_is_recorded_and_ends_nothing",
)
def test_sigterm_to_torchrun_loses_no_step(
    trainer: Any, straight: Callable[..., Any], mesh: tuple[str, ...], world: int
) -> None:
    process = trainer.start(*_torchrun(trainer, world, *mesh, "--steps", "400"))
    printed = read_until(process, "step 5 ")
    process.send_signal(signal.SIGTERM)
    stopped = trainer.finish(process, printed)
    match = re.search(r"asked to stop: checkpoint of step (\d+) verified", stopped.output)
    assert match, stopped.output[-3000:]
    steps_done = int(match[1])
    assert stopped.result["preempted"]
    assert len(stopped.losses) == steps_done < 400
    finished = trainer.train_forked(*mesh, "--steps", str(steps_done + 4))
    (resume,) = finished.result["resumes"]
    assert (resume["from_step"], resume["steps_lost"]) == (steps_done, 0)
    assert finished.losses == straight(*mesh, "--steps", str(steps_done + 4)).losses


@pytest.mark.matrix
def test_sigterm_to_the_launcher_has_its_own_exit_code(trainer: Any) -> None:
    process = trainer.start(*trainer.command("--mesh", "pp=1", "--steps", "4000"))
    printed = read_until(process, "step 3 ")
    process.send_signal(signal.SIGTERM)
    stopped = trainer.finish(process, printed)
    assert stopped.code == 75
    assert "verified" in stopped.output


@pytest.mark.matrix
def test_another_model_is_refused_with_the_first_key_that_differs(trainer: Any) -> None:
    trainer.train_forked("--mesh", "pp=1", "--steps", "2")
    refused = trainer.run("--mesh", "pp=1", "--steps", "4", "--model", "tiny")
    assert refused.code == 1
    assert "has model.feed_forward = 192, this run has 512" in refused.output


@pytest.mark.matrix
def test_a_damaged_shard_stops_the_run_or_is_quarantined(trainer: Any) -> None:
    text = trainer.directory / "text.txt"
    text.write_text("".join(f"line {number} of the text\n" for number in range(80_000)))
    flags = ("--mesh", "pp=1", "--data", str(text), "--data-bytes", "3000000")
    trainer.train_forked(*flags, "--steps", "1")
    shard = trainer.run_dir / "data" / "shard-00000.bin"
    shard.write_bytes(b"x" + shard.read_bytes()[1:])
    failed = trainer.run(*flags, "--steps", "2", "--resume", "never")
    assert failed.code == 1
    assert "shard-00000.bin" in failed.output
    quarantined = trainer.train(
        *flags, "--steps", "2", "--resume", "never", "--bad-shard", "quarantine"
    )
    assert quarantined.result["quarantined_shards"] == ["shard-00000.bin"]
