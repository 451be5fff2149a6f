"""Ranks that die in different ways: the incident has the cause, with the line that shows it.

Real ranks under `stepwatch run` and torchrun, a real agent and a real collector.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwatch.agent.rings.last_lines import EMPTY
from stepwatch.signals.stderr import line_files
from tests.services import Services
from tests.waiting import until

pytest.importorskip("torch", reason="the ranks need torch")

SCRIPT = Path(__file__).parent / "scripts" / "ended_rank.py"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
PASSWORD = "correct-horse-battery"
STEPS = "60"


class Way(NamedTuple):
    """An exit's cause, and a part of its line; `options` are torchrun's."""

    cause: str
    line: str
    options: tuple[str, ...] = ()


WAYS = {
    "memory": Way("host-memory", "MemoryError", ("--tee", "3")),
    "abort": Way("host-memory", "std::bad_alloc", ("--redirects", "2")),
    "killed": Way("process-gone", "about to load shard 17"),
    "secret": Way("permission-denied", "PermissionError: https(withheld: password)store/x is not"),
}
MORE_WAYS = {
    "assertion": Way("assertion", "AssertionError: batch of 7 for 8 ranks"),
    "missing_module": Way("import-error", "No module named 'no_such_module_anywhere'"),
    "full_disk": Way("disk-full", "OSError: [Errno 28] No space left on device"),
}
"""Exceptions like that of `secret`; their lines are in `tests/signals/stderr`, too."""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("exits")
    new_services = Services(
        folder, folder / "rings", sys.path, environ={"PLANTED_PASSWORD": PASSWORD}
    )
    try:
        new_services.start()
        yield new_services
    finally:
        new_services.close()


def job_of(name: str) -> str:
    return name.replace("_", "-")


def launch(services: Services, name: str, way: Way) -> subprocess.CompletedProcess[str]:
    """Run two ranks, one of which ends in a way; the job has the way's name."""
    folder = str(services.folder / name)
    words = (
        *(sys.executable, "-m", "stepwatch.cli", "run", "--job", job_of(name), "--"),
        *(*TORCHRUN, *way.options, "--log-dir", folder, str(SCRIPT), name, STEPS),
    )
    return subprocess.run(
        words, env=services.environ, capture_output=True, text=True, timeout=240, check=False
    )


Runs = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def runs(services: Services) -> Runs:
    """Each way's launch, which runs when a test first asks for it."""
    return cache(lambda name: launch(services, name, WAYS[name]))


def failure_incident(services: Services, job: str) -> dict[str, Any]:
    """Return the failed rank's incident, once it has the rank's last lines."""

    def first_incident() -> dict[str, Any] | None:
        of_kind = [
            incident for incident in services.incidents(job) if incident["kind"] == "rank-failed"
        ]
        return next(filter(last_lines_of, of_kind), None)

    return until(f"{job} has an incident with the last lines", first_incident)


def last_lines_of(incident: dict[str, Any]) -> str:
    """Return the rank's last lines from the evidence, or why they are missing."""
    texts = {entry["name"]: entry["text"] for entry in incident["evidence"]}
    return str(texts.get("it wrote at last") or texts.get("its last lines", ""))


LONG = pytest.mark.long(
    "tests/e2e/test_exit_causes.py::test_the_incident_has_the_cause_and_the_line",
    "tests/signals/stderr/test_keeping.py::test_the_last_lines_outlive_the_process_however_it_ends",
)


@pytest.mark.parametrize(
    "name", [name if name == "secret" else pytest.param(name, marks=LONG) for name in WAYS]
)
def test_the_incident_has_the_cause_and_the_line(services: Services, runs: Runs, name: str) -> None:
    assert runs(name).returncode != 0
    check(services, name, WAYS[name])


@pytest.mark.matrix
@pytest.mark.parametrize("name", MORE_WAYS)
def test_further_exceptions_are_causes_too(services: Services, name: str) -> None:
    assert launch(services, name, MORE_WAYS[name]).returncode != 0
    check(services, name, MORE_WAYS[name])


def check(services: Services, name: str, way: Way) -> None:
    incident = failure_incident(services, job_of(name))
    assert (incident["rank"], incident["cause"]) == (1, way.cause), incident["summary"]
    assert way.line in last_lines_of(incident)
    if name != "killed":
        assert way.line[:20] in incident["summary"]


def test_what_the_user_sees_has_the_line_and_the_store_has_no_secret(
    services: Services, runs: Runs
) -> None:
    printed = runs("secret").stderr
    assert f"PermissionError: https://me:{PASSWORD}@store/x is not ours" in printed
    failure_incident(services, "secret")
    stored = [services.store, *services.rings.rglob("*")]
    kept_files = [path for path in stored if path.parent.name == line_files.FOLDER]
    assert kept_files, "they are looked at, too"
    for path in filter(Path.is_file, stored):
        assert PASSWORD.encode() not in path.read_bytes(), path


@pytest.mark.long(
    "tests/e2e/test_exit_causes.py::test_the_incident_has_the_cause_and_the_line",
    "tests/collector/detect/test_rank_failed.py::test_that_no_line_was_kept_is_said_with_its_reason",
)
def test_the_reference_trainer_keeps_its_lines_without_the_verb(services: Services) -> None:
    environ = {**services.environ, "STEPWATCH_FAULTS": "kill:rank=1,step=6"}
    ran = subprocess.run(
        [*TORCHRUN, "-m", "stepwatch.trainer", "--job", "trained", "--mesh", "dp_shard=2",
         "--steps", "12", "--run-dir", str(services.folder / "run")],
        env=environ, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    incident = failure_incident(services, "trained")
    assert (incident["rank"], incident["cause"]) == (1, "process-gone"), incident["summary"]
    assert last_lines_of(incident) == EMPTY, "it is known, so its stderr was kept"
