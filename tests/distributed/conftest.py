"""Runs the real trainer: the way a user does, or with ranks that are forked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepwatch.trainer.config.configure import configure
from stepwatch.trainer.run.launch import rank_environment
from tests.ranks.forked import ForkedRanks

from .straight import Straight

SMALL = [
    *("--model", "debug", "--length", "32", "--batch", "16", "--microbatches", "4"),
    *("--data-bytes", "200000", "--seed", "7", "--warmup", "100", "--checkpoint-every", "0"),
]
"""A run of a few seconds. The warm-up outlasts it, so that the rate does not depend on --steps."""
LIMIT_SECONDS = 240


@dataclass(frozen=True)
class RunResult:
    """A run's exit code, its JSON result ({} without one) and its output."""

    directory: Path
    code: int
    result: dict[str, Any]
    output: str

    @property
    def losses(self) -> list[float]:
        losses: list[float] = self.result["losses"]
        return losses


class Trainer:
    """Starts trainings with all their files below one directory."""

    def __init__(self, directory: Path, forked_ranks: ForkedRanks) -> None:
        self.directory = directory
        self._forked_ranks = forked_ranks
        self.run_dir = directory / "run"
        self._json = directory / "result.json"

    def _words(self, *flags: str) -> list[str]:
        return [*SMALL, "--run-dir", str(self.run_dir), "--json", str(self._json), *flags]

    def command(self, *flags: str) -> list[str]:
        return [sys.executable, "-m", "stepwatch.cli", "train", *self._words(*flags)]

    def environment(self, **changes: str) -> dict[str, str]:
        rings = {"STEPWATCH_RING_DIR": str(self.directory / "rings"), "OMP_NUM_THREADS": "1"}
        return {**os.environ, **rings, **changes}

    def start(self, *command: str, **changes: str) -> subprocess.Popen[str]:
        self._json.unlink(missing_ok=True)
        return subprocess.Popen(
            command,
            env=self.environment(**changes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str], printed: str = "") -> RunResult:
        try:
            printed += process.communicate(timeout=LIMIT_SECONDS)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return self.read_result(process.returncode, printed)

    def read_result(self, code: int, printed: str) -> RunResult:
        """Return the result of an ended run, with the JSON that it wrote."""
        result = json.loads(self._json.read_bytes()) if self._json.exists() else {}
        return RunResult(self.directory, code, result, printed)

    def run(self, *flags: str, **changes: str) -> RunResult:
        """Run to the end, with any exit code."""
        return self.finish(self.start(*self.command(*flags), **changes))

    def train(self, *flags: str, **changes: str) -> RunResult:
        """Run to the end, which must be exit code 0."""
        finished = self.run(*flags, **changes)
        assert finished.code == 0, finished.output[-4000:]
        return finished

    def train_forked(self, *flags: str, faults: Sequence[str] = (), **changes: str) -> RunResult:
        """Train as `train` does, without the launcher and torchrun, for tests that do not need
        them."""
        words = self._words(*flags)
        options, _ = configure(words, "train")
        ended = self._forked_ranks.run(
            ["-m", "stepwatch.trainer", *words],
            options.parallel.mesh.world,
            self.directory / "logs",
            rank_environment(faults, self.environment(**changes)),
        )
        assert not any(ended.codes), f"{ended.codes}\n{ended.output[-4000:]}"
        return self.read_result(0, ended.output)


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """Read the output until a line contains `wanted`; returns all of it."""
    assert process.stderr is not None
    printed, deadline = "", time.monotonic() + LIMIT_SECONDS
    for line in process.stderr:
        printed += line
        if wanted in line or time.monotonic() > deadline:
            return printed
    raise AssertionError(f"the run ended before it printed {wanted!r}:\n{printed[-4000:]}")


@pytest.fixture
def trainer(tmp_path: Path, forked_ranks: ForkedRanks) -> Trainer:
    """A trainer with a directory of its own."""
    return Trainer(tmp_path, forked_ranks)


@pytest.fixture(scope="session")
def make_trainer(forked_ranks: ForkedRanks) -> Callable[[Path], Trainer]:
    """Makes a trainer below a given directory."""
    return lambda directory: Trainer(directory, forked_ranks)


@pytest.fixture(scope="session")
def straight(
    tmp_path_factory: pytest.TempPathFactory, make_trainer: Callable[[Path], Trainer]
) -> Straight:
    """Runs without interruption, each combination of flags once for all workers."""
    base_folder = tmp_path_factory.getbasetemp()
    everyones = base_folder.parent if "PYTEST_XDIST_WORKER" in os.environ else base_folder
    return Straight(everyones / "straight", make_trainer)
