"""One job that trains, saves twice, is killed, and resumes from the first save."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepwatch.cli.processes import MARK, marked_processes
from stepwatch.signals import places
from tests.trainers.cells import Cell
from tests.trainers.comparison import Mark
from tests.trainers.programs.plan import Plan
from tests.trainers.run import (
    AFTER_END_SECONDS,
    START_SECONDS,
    CellError,
    CellResult,
    finish,
    folder_of,
    start_run,
    wait,
)
from tests.trainers.site import Site

from . import columns
from .damage import change_byte
from .journal import Journal, read_journal

SAVE_EVERY, EVAL_EVERY, LAST_STEP = 30, 25, 80
STEP_SECONDS = 0.1
"""Computing time of a device in each batch: two batches make a step in most programs."""
PAUSE_SECONDS = 0.3
READ_SECONDS = 150.0
"""Longest time until the agent has read the checkpoints: it pauses between any two."""
_PENDING = ("writing", "written")


def run_record(result: CellResult, site: Site) -> CellResult:
    """Run the job of a cell; return the result with the marks for its records."""
    try:
        marks = record(result.cell, site, folder_of(result.cell, site))
    except CellError as error:
        return result._replace(problem=result.problem or str(error))
    return result._replace(marks={**result.marks, **marks})


def record(cell: Cell, site: Site, folder: Path) -> dict[str, Mark]:
    """Return the marks by column.

    Raises:
        CellError: the trainer failed.
    """
    plan = cell.plan(
        folder / "record", "record", steps=100_000, journal=True, forward_seconds=STEP_SECONDS,
        eval_every=EVAL_EVERY, save_every=SAVE_EVERY, pause_seconds=PAUSE_SECONDS,
    )  # fmt: skip
    metrics, journal, file = train_until_killed(cell, site, plan)
    rest = replace(plan, steps=LAST_STEP, resume_step=SAVE_EVERY, save_every=0, eval_every=0)
    finish(cell, site, rest, watched=True, **_environ())
    checkpoints = read_checkpoints(site, plan.job)
    site.sleep(AFTER_END_SECONDS)
    job = site.job(plan.job) or {}
    site.forget(plan.job)
    return {
        "user-metrics": columns.compare_metric(journal.values("perplexity"), metrics, "perplexity"),
        "validation": columns.compare_validation(journal.values("validation"), metrics),
        "learning-rate": columns.compare_metric(journal.values("lr"), metrics, "lr"),
        "ckpt-verified": columns.check_verified(checkpoints, SAVE_EVERY),
        "damage-found": columns.check_damage(checkpoints, 2 * SAVE_EVERY, file),
        "resume-seen": columns.check_resume(job, SAVE_EVERY),
        "loss-continued": columns.check_loss(job),
        "SLOs": columns.check_slos(job),
    }


def train_until_killed(
    cell: Cell, site: Site, plan: Plan
) -> tuple[list[dict[str, Any]], Journal, Path]:
    """Train, damage the second checkpoint, and kill all processes.

    Return the metrics just before, the ranks' journal, and the damaged file.
    """
    environ = {MARK: uuid.uuid4().hex, **_environ()}
    with start_run(cell, site, plan, watched=True, **environ) as process:

        def until(what: str, is_over: Callable[[], bool]) -> None:
            wait(process, site, is_over, START_SECONDS, what)

        until("it does not save", lambda: len(read_journal(plan).saves()) > 1)
        file = change_byte(Path(read_journal(plan).saves()[1]))
        newest = 2 * SAVE_EVERY + 1
        until("it does not go on", lambda: read_journal(plan).newest_step >= newest)
        until("no step is known", lambda: (_job(site, plan)["step"] or 0) >= newest)
        metrics = site.metrics(plan.job)
        kill(environ[MARK], process)
    return metrics, read_journal(plan), file


def kill(mark: str, process: subprocess.Popen[bytes]) -> None:
    """Kill a run's launcher and all its ranks with SIGKILL, and wait for its end."""
    for pid in marked_processes(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # another one's end ended it
            continue
    process.wait()


def read_checkpoints(site: Site, job: str) -> list[dict[str, Any]]:
    """Return a job's checkpoints once each was read, or after a time limit."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        items = site.checkpoints(job)
        is_read = items and not any(item["state"] in _PENDING for item in items)
        if is_read or time.monotonic() > deadline:
            return items
        site.sleep(1.0)


def _job(site: Site, plan: Plan) -> dict[str, Any]:
    return site.job(plan.job) or {"step": None}


def _environ() -> dict[str, str]:
    """The class with all default SLOs, as a user sets it."""
    return {places.ENV_JOB_CLASS: "production"}
