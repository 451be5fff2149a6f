"""The runs of one cell, and their results."""

from __future__ import annotations

import math
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.cli.processes import MARK, Processes
from tests.services import ROOT
from tests.trainers import comparison
from tests.trainers.cells import Cell
from tests.trainers.comparison import Mark
from tests.trainers.programs.plan import Plan
from tests.trainers.recording import Recording, rows_of
from tests.trainers.site import Site
from tests.trainers.truth import Truth, median_step, read_truth, same_numbers

PAIR_STEPS = 60
USUAL_SECONDS = 0.1
"""Step time where no pair was timed."""
START_SECONDS = 240.0
"""Longest that a run may take beyond its steps: compilation, a slow machine."""
VERDICT_SECONDS, SETTLE_SECONDS, AFTER_END_SECONDS = 25.0, 3.0, 4.0
PAUSES = 2
"""Evaluations, and saves, of a healthy run."""


class CellResult(NamedTuple):
    """A cell's row: marks by column, the overhead as a ratio, the healthy run's seconds.

    `step_seconds` is how long its usual step takes.
    """

    cell: Cell
    marks: dict[str, Mark]
    overhead: float = math.nan
    healthy_seconds: float = math.nan
    problem: str = ""
    step_seconds: float = USUAL_SECONDS

    @property
    def right(self) -> bool:
        """Whether no mark is wrong; unknown marks count as right."""
        return not self.problem and comparison.worst(self.marks.values()).word != comparison.WRONG


class CellError(Exception):
    """A run deviated from its plan."""


def run_pairs(result: CellResult, site: Site, pairs: int) -> CellResult:
    """Run pairs without and with stepwatch; set whether the numbers agree, the ratio of usual
    steps, and the seconds of a watched one."""
    cell, folder = result.cell, folder_of(result.cell, site)
    truths: dict[bool, list[Truth]] = {False: [], True: []}
    try:
        for number in range(2 * pairs):
            watched = number % 4 in (1, 2)  # off, on, on, off: a drift of the machine cancels out
            name = f"pair-{number}"
            plan = cell.plan(folder / name, name, watched=watched, steps=PAIR_STEPS)
            truths[watched].append(finish(cell, site, plan, watched=watched))
            site.forget(plan.job)
    except CellError as error:
        return result._replace(problem=str(error))
    first = truths[False][0]
    is_bitwise = all(same_numbers(first, truth) for truth in (*truths[False], *truths[True]))
    off, on = (min(map(median_step, truths[watched])) for watched in (False, True))
    marks = {**result.marks, "bitwise": Mark(comparison.RIGHT if is_bitwise else comparison.WRONG)}
    return result._replace(marks=marks, overhead=on / off, step_seconds=on)


def run_scenarios(result: CellResult, site: Site, seconds: float, *, faults: bool) -> CellResult:
    """Run once healthy for `seconds`, and once with each fault."""
    cell, folder = result.cell, folder_of(result.cell, site)
    took, marks = result.healthy_seconds, dict(result.marks)
    try:
        healthy_marks, took = healthy(cell, site, folder, seconds, result.step_seconds)
        marks |= healthy_marks
        for name in cell.faults if faults else ():
            marks[name] = faulty(cell, site, folder, name)
    except CellError as error:
        result = result._replace(problem=result.problem or str(error))
    return result._replace(marks=marks, healthy_seconds=took)


def folder_of(cell: Cell, site: Site) -> Path:
    """Return the folder of a cell's runs."""
    folder = site.folder / cell.name
    folder.mkdir(exist_ok=True)
    return folder


def healthy(
    cell: Cell, site: Site, folder: Path, seconds: float, usual: float
) -> tuple[dict[str, Mark], float]:
    """A run of about `seconds` with evaluations and saves of ten seconds and more."""
    pause = 10.5
    steps = max(PAIR_STEPS, int((seconds - 2 * PAUSES * pause) / usual) + 1)
    plan = cell.plan(
        folder / "healthy", "healthy", steps=steps, pause_seconds=pause,
        eval_every=steps * 2 // 5, save_every=steps * 9 // 20,
    )  # fmt: skip
    truth = finish(cell, site, plan, watched=True)
    site.sleep(AFTER_END_SECONDS)
    recording = read_recording(site, plan.job)
    columns = ("steps", "phases", "collectives", "losses", "tokens", "checkpoints", "evaluation")
    marks = {name: getattr(comparison, name)(truth, recording) for name in columns}
    took = max(rank_truth.ended[-1] - rank_truth.ended[0] for rank_truth in truth.values())
    marks["quiet"] = comparison.quiet(recording.incidents, took)
    site.forget(plan.job)
    return marks, took


def faulty(cell: Cell, site: Site, folder: Path, name: str) -> Mark:
    """Run until the fault is found, or until its time limit."""
    plan = cell.plan(folder / name, name, steps=100_000, fault=name)
    with start_run(cell, site, plan, watched=True) as process:
        wait(process, site, plan.trigger_file.exists, START_SECONDS, "the fault never began")
        triggered = time.monotonic()
        while time.monotonic() < triggered + VERDICT_SECONDS and not top_incidents(site, plan.job):
            site.sleep(0.5)
        site.sleep(SETTLE_SECONDS)
        incidents = top_incidents(site, plan.job)
    site.forget(plan.job)
    return comparison.fault(name, plan.world - 1, plan.world, incidents)


def finish(cell: Cell, site: Site, plan: Plan, *, watched: bool, **environ: str) -> Truth:
    """Run to the end, with `environ` added to its environment; return the ranks' diaries.

    Raises:
        CellError: it failed, or takes too long.
    """
    with start_run(cell, site, plan, watched=watched, **environ) as process:
        limit = START_SECONDS + plan.steps * 1.0
        wait(process, site, lambda: process.poll() is not None, limit, "it does not end")
    truth = read_truth(Path(plan.folder))
    if process.returncode or len(truth) != plan.world:
        raise CellError(f"{plan.job}: exit code {process.returncode}, see {plan.folder}/log")
    return truth


@contextmanager
def start_run(
    cell: Cell, site: Site, plan: Plan, *, watched: bool, **environ: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run in a session of its own, which ends with the block together with its ranks.

    `environ` is added to the environment; `MARK` in it is the mark of all processes of the run.
    """
    Path(plan.folder).mkdir(exist_ok=True)
    environ = {MARK: uuid.uuid4().hex, **environ}
    with open(Path(plan.folder, "log"), "ab") as log:
        process = subprocess.Popen(
            cell.command(plan, watched=watched),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**site.environ, **plan.variable(), **environ},
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)
        # Its ranks have sessions of their own, and may ignore the signal that it passes on.
        Processes(environ[MARK], Path(plan.folder), {}).stop_all()


def top_incidents(site: Site, job: str) -> list[dict[str, Any]]:
    """Incidents of a job that are not symptoms of another, oldest first."""
    incidents = [incident for incident in site.incidents(job) if not incident.get("merged_into")]
    return sorted(incidents, key=lambda incident: float(incident["opened_at"]))


def read_recording(site: Site, job: str) -> Recording:
    """All that stepwatch has of a job."""
    rows = rows_of(site.store, job)
    return Recording(rows, site.job(job) or {}, top_incidents(site, job))


def wait(
    process: subprocess.Popen[bytes],
    site: Site,
    is_over: Callable[[], bool],
    seconds: float,
    problem: str,
) -> None:
    """Wait for a condition while a run goes on.

    Raises:
        CellError: the run ended before it, or it takes longer than `seconds`: that is `problem`.
    """
    deadline = time.monotonic() + seconds
    while not is_over():
        if process.poll() is not None and not is_over():
            raise CellError(f"it ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise CellError(problem)
        site.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
