"""Every SLI is moved, or has a reason why not; and figures by hand of a synthetic run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwatch.collector.slo.over_run.registry import discover_run_slis
from tests.slis import figures
from tests.slis.__main__ import agrees, rows_of, table
from tests.slis.cases import CASES, NOT_COMPARED, NOT_MOVED, Case, Row
from tests.slis.figures import RunRecord, read
from tests.slis.run import SliRun


def test_no_sli_is_left_out() -> None:
    compared = {row.sli for case in CASES for row in case.rows}
    parts = [compared, set(NOT_COMPARED), set(NOT_MOVED)]
    assert set().union(*parts) == discover_run_slis().keys()
    assert sum(map(len, parts)) == len(discover_run_slis()), "each in one of them"


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    """Ten steps of a second, except steps 5 and 6, which take three; a save of half a second; a
    resume."""
    (tmp_path / "run").mkdir()
    time_s, lines = 1000.0, [{"from_step": 8, "steps_lost": 2, "seconds": 7.0}]
    for step in range(10):
        seconds = 3.0 if step in (5, 6) else 1.0
        time_s += seconds
        lines.append({"step": step, "loss": 1.0, "seconds": seconds, "wall_seconds": time_s})
    saved = {"step": 4, "verified": True, "stall_seconds": 0.7, "durable_seconds": 2.0}
    text = "".join(json.dumps(line) + "\n" for line in [*lines, saved])
    (tmp_path / "run" / "history.jsonl").write_text(text)
    return read(tmp_path, 100, range(5, 7), 990.0)


def test_figures_by_hand(run: RunRecord) -> None:
    assert (run.usual_seconds, run.extra_seconds, run.elapsed_seconds) == (1.0, 4.0, 14.0)
    assert figures.throughput(run) == pytest.approx(900 / 13)
    assert figures.usual_share(run) == pytest.approx(5 / 11), "without the first three"
    assert figures.share_of_all_ranks(run) == pytest.approx(4 / 14)
    assert figures.share_of_one_rank(run) + figures.share_of_other_ranks(run) == pytest.approx(
        4 / 14
    )
    assert figures.stall_share(run) == pytest.approx(0.05)
    assert (figures.durable_seconds(run), figures.verified_share(run)) == (2.0, 1.0)
    assert (figures.lost_steps(run), figures.idle_seconds(run)) == (2.0, 7.0)
    assert figures.kept_share(run) == pytest.approx(14 / (14 + 2 + 7))
    assert figures.completion_seconds(run) == pytest.approx(24.0)
    assert figures.verified_age_seconds(run) == pytest.approx(14.0 - 4.0)
    assert figures.cost(run) == pytest.approx(4 * 14 / 3600 * figures.DEVICE_HOUR / 1000 * 1e6)


@pytest.mark.parametrize(
    ("measured", "expected"), [(1.0, True), (1.1, True), (1.2, False), (None, False)]
)
def test_what_differs_or_is_unknown_does_not_agree(measured: float | None, expected: bool) -> None:
    assert agrees(Row("any", figures.constant(1.0), 0.1, 0.01), measured, 1.0) is expected


def test_a_share_stands_on_what_was_there_before(run: RunRecord) -> None:
    case = Case("case", "a fault", [], [Row("goodput", figures.constant(0.5), 0, 0.01, True)])
    (row,) = rows_of(case, SliRun({"goodput": 0.2}, {}, {"goodput": 0.6}, run))
    assert row["by_hand"] == pytest.approx(0.6) and row["agrees"]


def test_the_table_says_what_differs(run: RunRecord) -> None:
    case = Case("case", "a fault", [], [Row("goodput", figures.constant(0.5))])
    shown = table([*rows_of(case, SliRun({}, {"goodput": 0.7}, {"goodput": 0.9}, run))])
    assert "| goodput | a fault | unknown | 0.7 | 0.9 | 0.5 **differs** |" in shown
