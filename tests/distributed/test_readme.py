"""The trainer's command does as its README shows."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stepwatch.trainer
from stepwatch.trainer.config.configure import EXAMPLE

README = Path(stepwatch.trainer.__file__).with_name("README.md")


def _documented_command() -> str:
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return str(blocks[0]).strip()


def _run(command: str, directory: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    words = shlex.split(command)
    assert words[0] == "stepwatch"
    return subprocess.Popen(
        [sys.executable, "-m", "stepwatch.cli", *words[1:]],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long(
    "tests/distributed/test_readme.py::test_help_shows_an_example_and_every_section",
    "tests/distributed/test_strategies.py::test_losses_agree_with_one_process",
    "tests/trainer/run/test_result.py::test_the_result_covers_the_whole_run",
)
def test_the_readme_example_runs_as_written(trainer: Any) -> None:
    assert _documented_command() == EXAMPLE
    process = _run(_documented_command(), trainer.directory, trainer.environment())
    _, printed = process.communicate(timeout=240)
    assert process.returncode == 0, printed[-3000:]
    result = json.loads((trainer.directory / "result.json").read_bytes())
    assert len(result["losses"]) == 30
    assert result["losses"][-1] < 3.6 < 5.4 < result["losses"][0]
    assert result["tokens_per_second"] > 0
    assert set(result["step_seconds"]) == {"p50", "p95", "p99"}
    assert [row["verified"] for row in result["checkpoints"]] == [True, True]
    assert {"step", "stall_seconds", "durable_seconds"} <= set(result["checkpoints"][0])
    assert result["resumes"] == []
    assert result["bubble"]["ideal"] == 0.2
    assert 0 < result["bubble"]["measured"] < 1
    assert result["mfu"] is None
    assert printed.count("configuration: {") == 1
    assert sorted(path.name for path in trainer.directory.iterdir()) == ["result.json", "rings"]


def test_help_shows_an_example_and_every_section(trainer: Any) -> None:
    process = _run("stepwatch train --help", trainer.directory, trainer.environment())
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert EXAMPLE in text
    assert all(
        f"[{name}]" in text for name in ("run", "model", "parallel", "checkpoint", "evaluation")
    )
    assert "--mesh AXIS=N,..." in text


def test_a_misspelt_flag_gives_the_nearest_one(trainer: Any) -> None:
    process = _run("stepwatch train --shedule 1f1b", trainer.directory, trainer.environment())
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 2
    assert printed.count("\n") == 1
    assert "--schedule" in printed
