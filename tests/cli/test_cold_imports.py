"""Verbs that ask a collector answer at once: each imports little, and nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.cli.main import OK, main
from stepwatch.signals.http import Client
from tests.collector.process import Process, running

HEAVY = (
    *("numpy", "httpx", "asyncio", "rich", "pygments", "click", "sqlalchemy", "torch", "pydantic"),
    *("pydantic_core", "starlette", "uvicorn", "zstandard", "prometheus_client", "yaml"),
)
"""Packages that no verb needs which asks a collector and prints its answer."""
MOST_MODULES, MOST_FOR_HELP = 240, 200
"""Bare Python imports about 60; `argparse`, `logging`, `http.client` and `json` together 90."""
JOB = "cold"
VERBS = (
    "status --all",
    f"status {JOB}",
    "incidents",
    "incidents --id {incident}",
    f"diagnose {JOB}",
    "nodes",
    "runbook TrainingStraggler",
    "runbook --incident {incident}",
    "silence --list",
    "slo",
    f"checkpoints {JOB}",
    "report",
    "postmortem {incident}",
)
HELPS = ("doctor", "up", "agent", "collector", "demo", "simulate", "train", "checklist", "store")
PROGRAM = """
import json, sys
from stepwatch.cli.main import main
try:
    code = main(sys.argv[2:])
except SystemExit as end:
    code = end.code
with open(sys.argv[1], "w") as file:
    json.dump([code, sorted(sys.modules)], file)
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A collector with a job, an incident and nodes."""
    with running(tmp_path_factory.mktemp("collector")) as process:
        yield simulated(process)


def simulated(process: Process) -> str:
    words = ["simulate", "--collector", process.url, "--job", JOB, "--speed", "0"]
    words += ["--ranks", "16", "--steps", "200", "--fault", "slow-compute:rank=3,step=50"]
    assert main(words) == OK
    return process.url


def imported(folder: Path, words: str) -> tuple[int, list[str]]:
    """Run a verb in a process; its exit code and the modules there at its end."""
    file = folder / "modules.json"
    command = [sys.executable, "-c", PROGRAM, str(file), *words.split()]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert file.exists(), ran.stderr
    code, modules = json.loads(file.read_text())
    assert code in (0, 1), ran.stderr
    return code, modules


def heavy_of(modules: list[str]) -> set[str]:
    return {*HEAVY} & {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_asks_a_collector_imports_little(tmp_path: Path, url: str, verb: str) -> None:
    with Client(url) as client:
        (incident,) = client.get("/v1/incidents").json()["incidents"]
    words = verb.format(incident=incident["id"])
    _, modules = imported(tmp_path, f"{words} --collector {url}")
    assert heavy_of(modules) == set()
    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize("verb", HELPS)
def test_help_imports_little(tmp_path: Path, verb: str) -> None:
    _, modules = imported(tmp_path, f"{verb} --help")
    assert heavy_of(modules) == set()
    assert len(modules) <= MOST_FOR_HELP
