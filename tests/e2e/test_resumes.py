"""Real trainers that save, are killed, and resume: the job's document tells what continued."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services import Services
from tests.waiting import until

pytest.importorskip("torch", reason="the trainers need torch")

SCRIPT = Path(__file__).parent / "scripts" / "resumed_loop.py"
SAVED, KILLED = 60, 75
LONG = pytest.mark.long(
    "tests/e2e/test_resumes.py::test_a_loop_that_restores_nothing_does_not_continue",
    "tests/collector/analysis/test_resumes.py::test_a_rate_that_follows_its_schedule_continued",
    "tests/collector/detect/test_loss_resumes.py"
    "::test_a_loss_that_goes_on_has_continued_or_is_unknown",
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("resumes")
    new_services = Services(folder, folder / "rings", sys.path)
    try:
        new_services.start()
        yield new_services
    finally:
        new_services.close()


def has_state(services: Services, job: str, state: str) -> bool:
    return bool((services.job(job) or {"state": ""})["state"] == state)


def resume_of(services: Services, job: str) -> dict[str, Any]:
    """Return the newest attempt's resume once its losses are compared."""

    def compared() -> dict[str, Any] | None:
        attempts = (services.job(job) or {"attempts": []})["attempts"]
        resume = attempts[-1]["resume"] if attempts else None
        return resume if resume and resume["loss_continued"] is not None else None

    document: dict[str, Any] = until(f"{job} has compared its losses", compared)
    return document


def run_twice(services: Services, job: str, restore: str) -> dict[str, Any]:
    """Run a loop that kills itself after its save, then again; return the resume."""
    folder = services.folder / job
    folder.mkdir()
    words = [sys.executable, str(SCRIPT), "--job", job, "--folder", str(folder)]
    words += ["--restore", restore]
    for state in ("failed", "finished"):
        subprocess.run(words, env=services.environ, capture_output=True, timeout=120, check=False)
        until(f"{job} has {state}", functools.partial(has_state, services, job, state))
    return resume_of(services, job)


def test_a_loop_that_restores_nothing_does_not_continue(services: Services) -> None:
    resume = run_twice(services, "restores-nothing", "")
    assert (resume["step"], resume["loss_continued"]) == (SAVED, False)
    assert resume["loss_after"] > 1.5 * resume["loss_before"]
    assert resume["learning_rate_continued"] is False
    assert resume["data_order"] == "restarted"


def run_without_code(services: Services, job: str) -> int:
    """Run the loop by SGD, whose state counts no steps, without a line of code for stepwatch."""
    folder = services.folder / job
    folder.mkdir(exist_ok=True)
    words = [
        *(sys.executable, "-m", "stepwatch.cli", "run", "--job", job, "--"),
        *(sys.executable, str(SCRIPT), "--folder", str(folder)),
        *("--restore", "model,optimizer,rate,data", "--optimizer", "SGD"),
    ]
    ended = subprocess.run(
        words, env=services.environ, capture_output=True, timeout=120, check=False
    )
    return ended.returncode


@LONG
def test_a_loop_that_counts_from_zero_again_redoes_what_its_checkpoint_lacks(
    services: Services,
) -> None:
    job = "counts-anew"
    for state, code in (("failed", 137), ("finished", 0)):
        assert run_without_code(services, job) in (code, -9)
        until(f"{job} has {state}", functools.partial(has_state, services, job, state))

    def lost() -> dict[str, Any] | None:
        answer = services._get(f"/v1/jobs/{job}/slis")["slis"]
        slis = {sli["name"]: sli for sli in answer}
        return slis["lost-steps"] if slis["lost-steps"]["value"] else None

    assert until("the lost steps are known", lost)["value"] == KILLED - SAVED
    resume = (services.job(job) or {})["attempts"][-1]["resume"]
    assert resume["step"] == SAVED
    assert resume["path"] == str(services.folder / job / f"step-{SAVED}.pt")
    assert resume["learning_rate_continued"] is True


@LONG
def test_a_checkpoint_that_cannot_be_loaded_is_one_incident_over_all_tries(
    services: Services,
) -> None:
    job, place = "cut-short", services.folder / "cut-short" / f"step-{SAVED}.pt"
    run_without_code(services, job)
    until(f"{job} has failed", functools.partial(has_state, services, job, "failed"))
    os.truncate(place, place.stat().st_size // 2)

    def failed() -> list[dict[str, Any]]:
        words = f"the resume from step {SAVED} ({place}) failed"
        return [item for item in services.incidents(job) if words in item["summary"]]

    for _ in range(2):
        assert run_without_code(services, job) == 1
        until("the failed resume is an incident", failed)
    (incident,) = failed()
    assert (incident["kind"], incident["cause"]) == ("rank-failed", "failed-resume")
    assert "RuntimeError" in incident["summary"]


@LONG
def test_a_loop_that_restores_everything_continues(services: Services) -> None:
    resume = run_twice(services, "restores-all", "model,optimizer,rate,data")
    assert (resume["step"], resume["loss_continued"]) == (SAVED, True)
    assert resume["learning_rate_continued"] is True
    assert resume["data_order"] == "continued"
    assert resume["path"] == str(services.folder / "restores-all" / f"step-{SAVED}.pt")


@LONG
def test_a_data_order_that_restarts_is_shown_beside_a_loss_that_continues(
    services: Services,
) -> None:
    resume = run_twice(services, "restores-no-data", "model,optimizer,rate")
    assert resume["loss_continued"] is True and resume["learning_rate_continued"] is True
    assert resume["data_order"] == "restarted"


@LONG
def test_the_reference_trainer_continues_after_a_killed_rank(services: Services) -> None:
    words = [
        *(sys.executable, "-m", "stepwatch.cli", "train", "--job", "reference", "--mesh", "pp=1"),
        *("--run-dir", str(services.folder / "reference"), "--model", "debug", "--length", "32"),
        *("--batch", "16", "--data-bytes", "200000", "--warmup", "10", "--lr", "0.01"),
        *("--steps", "60", "--checkpoint-every", "40", "--restarts", "1"),
        *("--fault", "kill:rank=0,step=50"),
    ]
    ended = subprocess.run(
        words, env=services.environ, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    resume = resume_of(services, "reference")
    assert (resume["step"], resume["loss_continued"]) == (40, True)
    assert resume["learning_rate_continued"] is True
    assert resume["path"] == str(services.folder / "reference" / "checkpoints" / "step-00000040")
    assert resume["data_order"] == "unknown"
