"""The runs of one cell, and what came of each."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.services import ROOT, Services
from tests.trainers import comparison
from tests.trainers.cells import Cell
from tests.trainers.comparison import Mark
from tests.trainers.programs.plan import Plan
from tests.trainers.recorded import Recorded, rows_of
from tests.trainers.truth import Truth, median_step, read_truth, same_numbers

PAIR_STEPS = 60
USUAL_SECONDS = 0.1
"""Of a step, where no pair was timed."""
START_SECONDS = 240.0
"""Longest that a run may take beyond its steps: compilation, a slow machine."""
VERDICT_SECONDS, SETTLE_SECONDS, AFTER_END_SECONDS = 25.0, 3.0, 4.0
PAUSES = 2
"""Evaluations, and saves, of a healthy run."""


class Done(NamedTuple):
    """A cell's row: marks by column, the overhead as a ratio, the healthy run's seconds."""

    cell: Cell
    marks: dict[str, Mark]
    overhead: float
    healthy_seconds: float
    problem: str = ""

    @property
    def right(self) -> bool:
        """Whether nothing is wrong; unknown is not."""
        return not self.problem and comparison.worst(self.marks.values()).word != comparison.WRONG


class CellError(Exception):
    """A run did not do what its plan says."""


def run(cell: Cell, services: Services, seconds: float, pairs: int, *, faults: bool) -> Done:
    """Run a cell: pairs with and without stepwatch, a healthy run of `seconds`, and its faults."""
    folder = services.folder / cell.name
    folder.mkdir()
    try:
        ratio, usual, marks = math.nan, USUAL_SECONDS, dict[str, Mark]()
        if pairs:
            marks["bitwise"], ratio, usual = compare(cell, services, folder, pairs)
        found, took = healthy(cell, services, folder, seconds, usual)
        marks |= found
        for name in cell.faults if faults else ():
            marks[name] = faulty(cell, services, folder, name)
        return Done(cell, marks, ratio, took)
    except CellError as error:
        return Done(cell, {}, math.nan, 0.0, str(error))


def compare(cell: Cell, services: Services, folder: Path, pairs: int) -> tuple[Mark, float, float]:
    """Runs in turn without and with stepwatch: whether the numbers are the same, the ratio of
    usual steps, and the seconds of a watched one."""
    truths: dict[bool, list[Truth]] = {False: [], True: []}
    for number in range(2 * pairs):
        watched = number % 4 in (1, 2)  # off, on, on, off: a drift of the machine cancels out
        plan = cell.plan(
            folder / f"pair-{number}", f"pair-{number}", watched=watched, steps=PAIR_STEPS
        )
        truths[watched].append(finish(cell, services, plan, watched=watched))
    first = truths[False][0]
    same = all(same_numbers(first, each) for each in (*truths[False], *truths[True]))
    off, on = (min(map(median_step, truths[watched])) for watched in (False, True))
    return Mark(comparison.RIGHT if same else comparison.WRONG), on / off, on


def healthy(
    cell: Cell, services: Services, folder: Path, seconds: float, usual: float
) -> tuple[dict[str, Mark], float]:
    """A run of about `seconds` with evaluations and saves of ten seconds and more."""
    pause = 10.5
    steps = max(PAIR_STEPS, int((seconds - 2 * PAUSES * pause) / usual) + 1)
    plan = cell.plan(
        folder / "healthy", "healthy", steps=steps, pause_seconds=pause,
        eval_every=steps * 2 // 5, save_every=steps * 9 // 20,
    )  # fmt: skip
    truth = finish(cell, services, plan, watched=True)
    time.sleep(AFTER_END_SECONDS)
    seen = recorded(services, plan.job)
    columns = ("steps", "phases", "collectives", "losses", "tokens", "checkpoints", "evaluation")
    marks = {name: getattr(comparison, name)(truth, seen) for name in columns}
    marks["quiet"] = comparison.quiet(seen.incidents)
    services.forget(plan.job)
    return marks, max(each.ended[-1] - each.ended[0] for each in truth.values())


def faulty(cell: Cell, services: Services, folder: Path, name: str) -> Mark:
    """A run that goes on until its fault is found, or is not."""
    plan = cell.plan(folder / name, name, steps=100_000, fault=name)
    with started(cell, services, plan, watched=True) as process:
        _wait(process, plan.triggered.exists, START_SECONDS, "the fault never began")
        triggered = time.monotonic()
        while time.monotonic() < triggered + VERDICT_SECONDS and not standing(services, plan.job):
            time.sleep(0.5)
        time.sleep(SETTLE_SECONDS)
        found = standing(services, plan.job)
    services.forget(plan.job)
    return comparison.fault(name, plan.world - 1, plan.world, found)


def finish(cell: Cell, services: Services, plan: Plan, *, watched: bool) -> Truth:
    """Run to the end; returns what the ranks wrote.

    Raises:
        CellError: it failed, or takes too long.
    """
    with started(cell, services, plan, watched=watched) as process:
        limit = START_SECONDS + plan.steps * 1.0
        _wait(process, lambda: process.poll() is not None, limit, "it does not end")
    truth = read_truth(Path(plan.folder))
    if process.returncode or len(truth) != plan.world:
        raise CellError(f"{plan.job}: exit code {process.returncode}, see {plan.folder}/log")
    return truth


@contextmanager
def started(
    cell: Cell, services: Services, plan: Plan, *, watched: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """The run in a session of its own, which ends with the block."""
    Path(plan.folder).mkdir()
    with open(Path(plan.folder, "log"), "wb") as log:
        process = subprocess.Popen(
            cell.command(plan, watched=watched),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**services.environ, **plan.variable()},
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def standing(services: Services, job: str) -> list[dict[str, Any]]:
    """Incidents of a job that are no symptoms of another, oldest first."""
    found = [each for each in services.incidents(job) if not each.get("merged_into")]
    return sorted(found, key=lambda each: float(each["opened_at"]))


def recorded(services: Services, job: str) -> Recorded:
    """All that stepwatch has of a job."""
    rows = rows_of(services.store, job)
    return Recorded(rows, services.job(job) or {}, standing(services, job))


def _wait(process: subprocess.Popen[bytes], done: Any, seconds: float, problem: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if process.poll() is not None and not done():
            raise CellError(f"it ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise CellError(problem)
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a run with all its ranks: torchrun gives each a session of its own."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
