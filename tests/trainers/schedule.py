"""Runs of the matrix at the same time: timed ones alone, the others of several cells together."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from tests.matrices import INTERRUPTED
from tests.trainers.cells import Cell
from tests.trainers.records.job import run_record
from tests.trainers.report import line, remarks
from tests.trainers.run import CellResult, run_pairs, run_scenarios
from tests.trainers.site import Site

_PAIR_SECONDS, _START_SECONDS, _FAULT_SECONDS, _RECORD_SECONDS = 26.0, 15.0, 25.0, 80.0
"""Estimated seconds of a pair, a healthy run's start, a run with a fault, and a job that is killed
and resumes."""


class MatrixRequest(NamedTuple):
    """The runs of a matrix: cells, pairs of each (0: none), seconds of healthy runs (0: none),
    whether with faults, the number of cells at a time, and whether with a kill and a resume."""

    cells: Sequence[Cell]
    pairs: int
    seconds: float
    faults: bool
    jobs: int
    record: bool = True


class Stage(NamedTuple):
    """A part of each cell, `jobs` cells at a time; `planned_seconds` is one part's estimate."""

    name: str
    jobs: int
    planned_seconds: Callable[[Cell], float]
    run: Callable[[Cell, CellResult], CellResult]


class Progress:
    """Estimates the remaining time after each part, from the pace so far."""

    def __init__(
        self,
        stages: Sequence[Stage],
        cells: Sequence[Cell],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._began = clock, clock()
        self._parts, self._number = len(stages) * len(cells), 0
        self._total = sum(
            stage.planned_seconds(cell) / stage.jobs for stage in stages for cell in cells
        )
        self._planned_seconds = 0.0

    def describe(self, stage: Stage, cell: Cell) -> str:
        """Words after a part."""
        self._number += 1
        self._planned_seconds += stage.planned_seconds(cell) / stage.jobs
        pace = (self._clock() - self._began) / self._planned_seconds
        left_s = max(0.0, pace * (self._total - self._planned_seconds))
        return f"{self._number}/{self._parts}, {left_s / 60:.0f} min left"


def stages_of(request: MatrixRequest, site: Site) -> list[Stage]:
    """Pairs are timed on a machine that does nothing else; the rest is mostly sleep."""

    def run_seconds(cell: Cell) -> float:
        faults = len(cell.faults) if request.faults else 0
        return request.seconds + _START_SECONDS + faults * _FAULT_SECONDS

    pairs = Stage(
        "pairs", 1, lambda cell: request.pairs * _PAIR_SECONDS,
        lambda cell, result: run_pairs(result, site, request.pairs),
    )  # fmt: skip
    jobs = max(1, min(request.jobs, len(request.cells)))
    runs = Stage(
        "runs", jobs, run_seconds,
        lambda cell, result: run_scenarios(result, site, request.seconds, faults=request.faults),
    )  # fmt: skip
    record = Stage(
        "record", jobs, lambda cell: _RECORD_SECONDS, lambda cell, result: run_record(result, site)
    )
    chosen = ((pairs, request.pairs), (runs, request.seconds), (record, request.record))
    return [stage for stage, is_wanted in chosen if is_wanted]


def run_all(request: MatrixRequest, site: Site) -> tuple[list[CellResult], bool]:
    """Run the cells stage by stage; return the results, and whether they are complete.

    After Ctrl-C the results so far are returned, perhaps with cells that have only their pairs.
    """
    stages, results = stages_of(request, site), dict[str, CellResult]()
    progress = Progress(stages, request.cells)

    def on_result(stage: Stage, result: CellResult) -> None:
        results[result.cell.name] = result
        done_share = progress.describe(stage, result.cell)
        progress_line = f"{done_share}: {result.cell.name} {stage.name}: {line(result)}"
        print("\n    ".join([progress_line, *remarks(result)]), flush=True)

    try:
        for stage in stages:
            earlier = [results.get(cell.name, CellResult(cell, {})) for cell in request.cells]
            for_each(stage, earlier, site, on_result)
        complete = True
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        complete = False
    return [results[cell.name] for cell in request.cells if cell.name in results], complete


def for_each(
    stage: Stage,
    results: Sequence[CellResult],
    site: Site,
    on_result: Callable[[Stage, CellResult], None],
) -> None:
    """Run a stage of all cells; `on_result` is called in this thread after each."""
    with ThreadPoolExecutor(stage.jobs) as pool:
        under_way = [pool.submit(stage.run, result.cell, result) for result in results]
        try:
            for future in as_completed(under_way):
                on_result(stage, future.result())
        except BaseException:
            for pending in under_way:
                pending.cancel()
            site.stop()
            raise
