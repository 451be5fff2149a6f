"""Which runs go on at the same time: timed ones alone, of the others those of several cells."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from tests.matrices import INTERRUPTED
from tests.trainers.cells import Cell
from tests.trainers.report import line, remarks
from tests.trainers.run import Done, timed, untimed
from tests.trainers.site import Site

_PAIR_SECONDS, _START_SECONDS, _FAULT_SECONDS = 26.0, 15.0, 25.0
"""What a pair, the start of a healthy run, and a run with a fault take about."""


class Wanted(NamedTuple):
    """What to run: cells, pairs of each (0: none), seconds of healthy runs, whether faults too,
    and of how many cells at a time."""

    cells: Sequence[Cell]
    pairs: int
    seconds: float
    faults: bool
    jobs: int


class Stage(NamedTuple):
    """A part of each cell, `jobs` cells at a time; `planned` is about how long one takes."""

    name: str
    jobs: int
    planned: Callable[[Cell], float]
    run: Callable[[Cell, Done], Done]


class Progress:
    """Says after each part how long the rest will take, from what the parts so far took."""

    def __init__(
        self,
        stages: Sequence[Stage],
        cells: Sequence[Cell],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._began = clock, clock()
        self._parts, self._number = len(stages) * len(cells), 0
        self._total = sum(stage.planned(cell) / stage.jobs for stage in stages for cell in cells)
        self._planned = 0.0

    def describe(self, stage: Stage, cell: Cell) -> str:
        """Words after a part."""
        self._number += 1
        self._planned += stage.planned(cell) / stage.jobs
        pace = (self._clock() - self._began) / self._planned
        left_s = max(0.0, pace * (self._total - self._planned))
        return f"{self._number}/{self._parts}, {left_s / 60:.0f} min left"


def stages_of(wanted: Wanted, site: Site) -> list[Stage]:
    """Pairs are timed on a machine that does nothing else; the rest is mostly sleep."""

    def run_seconds(cell: Cell) -> float:
        faults = len(cell.faults) if wanted.faults else 0
        return wanted.seconds + _START_SECONDS + faults * _FAULT_SECONDS

    pairs = Stage(
        "pairs", 1, lambda cell: wanted.pairs * _PAIR_SECONDS,
        lambda cell, result: timed(result, site, wanted.pairs),
    )  # fmt: skip
    runs = Stage(
        "runs", max(1, min(wanted.jobs, len(wanted.cells))), run_seconds,
        lambda cell, result: untimed(result, site, wanted.seconds, faults=wanted.faults),
    )  # fmt: skip
    return [pairs, runs] if wanted.pairs else [runs]


def run_all(wanted: Wanted, site: Site) -> tuple[list[Done], bool]:
    """Run the cells stage by stage; returns what is done, and whether that is everything.

    Ctrl-C ends with what is done then, perhaps cells that have their pairs only.
    """
    stages, results = stages_of(wanted, site), dict[str, Done]()
    progress = Progress(stages, wanted.cells)

    def finished(stage: Stage, result: Done) -> None:
        results[result.cell.name] = result
        done_share = progress.describe(stage, result.cell)
        progress_line = f"{done_share}: {result.cell.name} {stage.name}: {line(result)}"
        print("\n    ".join([progress_line, *remarks(result)]), flush=True)

    try:
        for stage in stages:
            earlier = [results.get(cell.name, Done(cell, {})) for cell in wanted.cells]
            for_each(stage, earlier, site, finished)
        complete = True
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        complete = False
    return [results[cell.name] for cell in wanted.cells if cell.name in results], complete


def for_each(
    stage: Stage, results: Sequence[Done], site: Site, finished: Callable[[Stage, Done], None]
) -> None:
    """Run a stage of all cells; `finished` is called in this thread after each."""
    with ThreadPoolExecutor(stage.jobs) as pool:
        under_way = [pool.submit(stage.run, result.cell, result) for result in results]
        try:
            for future in as_completed(under_way):
                finished(stage, future.result())
        except BaseException:
            for pending in under_way:
                pending.cancel()
            site.stop()
            raise
