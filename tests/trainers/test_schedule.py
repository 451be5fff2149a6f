"""Timed runs have the machine for themselves; other runs share it, and stop together."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.trainers.__main__ import arguments
from tests.trainers.cells import Cell, cells
from tests.trainers.run import CellResult
from tests.trainers.schedule import MatrixRequest, Progress, Stage, for_each, run_all, stages_of
from tests.trainers.site import RunsInterrupted, Site

CELLS = list(cells())[:4]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Services that are not started."""
    return Site(tmp_path, tmp_path)


def cell_seconds(cell: Cell) -> float:
    return 60.0


def test_pairs_run_alone_and_the_others_so_many_at_a_time(site: Site) -> None:
    wanted = MatrixRequest(CELLS, pairs=2, seconds=120.0, faults=True, jobs=3)
    assert [(stage.name, stage.jobs) for stage in stages_of(wanted, site)] == [
        ("pairs", 1),
        ("runs", 3),
        ("record", 3),
    ]
    unpaired = stages_of(wanted._replace(pairs=0, cells=CELLS[:1]), site)
    assert [(stage.name, stage.jobs) for stage in unpaired] == [("runs", 1), ("record", 1)]
    second_table = stages_of(wanted._replace(pairs=0, seconds=0.0), site)
    assert [stage.name for stage in second_table] == ["record"]
    assert unpaired[0].planned_seconds(CELLS[0]) > stages_of(wanted._replace(faults=False), site)[
        1
    ].planned_seconds(CELLS[0])


def test_no_more_than_the_jobs_are_under_way(site: Site) -> None:
    under_way, most, lock = [0], [0], threading.Lock()
    barrier = threading.Barrier(2, timeout=30.0)

    def run(cell: Cell, result: CellResult) -> CellResult:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        barrier.wait()  # breaks unless two are here at once
        with lock:
            under_way[0] -= 1
        return result._replace(overhead=1.0)

    results: list[CellResult] = []
    for_each(
        Stage("runs", 2, cell_seconds, run),
        [CellResult(cell, {}) for cell in CELLS],
        site,
        lambda stage, result: results.append(result),
    )
    assert {result.cell.name for result in results} == {cell.name for cell in CELLS}
    assert {result.overhead for result in results} == {1.0}
    assert most == [2]


def test_after_ctrl_c_runs_end_and_the_table_holds_what_is_done(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[str] = []

    def run(cell: Cell, result: CellResult) -> CellResult:
        if cell is CELLS[0]:
            return result
        try:
            site.sleep(60.0)
        except RunsInterrupted:
            ended.append(cell.name)
            raise
        return result

    def interrupt(*ignored: object) -> str:
        raise KeyboardInterrupt

    stage = Stage("runs", 2, cell_seconds, run)
    monkeypatch.setattr("tests.trainers.schedule.stages_of", lambda wanted, site: [stage])
    monkeypatch.setattr(Progress, "describe", interrupt)
    results, complete = run_all(MatrixRequest(CELLS, 0, 1.0, faults=False, jobs=2), site)
    assert [result.cell for result in results] == CELLS[:1]
    assert not complete
    assert set(ended) <= {cell.name for cell in CELLS[1:3]}, "those that waited never began"
    assert "interrupted" in capsys.readouterr().err


def test_the_rest_is_estimated_from_the_pace_so_far() -> None:
    now = [100.0]
    stages = [
        Stage("pairs", 1, lambda cell: 60.0, lambda cell, result: result),
        Stage("runs", 2, lambda cell: 240.0, lambda cell, result: result),
    ]
    progress = Progress(stages, CELLS, clock=lambda: now[0])
    now[0] += 120.0  # twice as slow as planned; 3 x 60 s and 4 x 240 s / 2 remain
    assert progress.describe(stages[0], CELLS[0]) == "1/8, 22 min left"


def test_no_jobs_are_no_number_of_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments(["--jobs", "2"]).jobs == 2
    with pytest.raises(SystemExit):
        arguments(["--jobs", "0"])
    assert "--jobs" in capsys.readouterr().err
