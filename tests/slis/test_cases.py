"""Every SLI is moved, or somebody says why not; figures by hand, of a run that is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwatch.collector.slo.over_run.registry import discover_run_slis
from tests.slis import by_hand
from tests.slis.__main__ import agrees, rows_of, table
from tests.slis.by_hand import Trained, read
from tests.slis.cases import CASES, NOT_COMPARED, NOT_MOVED, Case, Row
from tests.slis.run import Ran


def test_no_sli_is_left_out() -> None:
    compared = {row.sli for case in CASES for row in case.rows}
    parts = [compared, set(NOT_COMPARED), set(NOT_MOVED)]
    assert set().union(*parts) == discover_run_slis().keys()
    assert sum(map(len, parts)) == len(discover_run_slis()), "each in one of them"


@pytest.fixture
def run(tmp_path: Path) -> Trained:
    """Ten steps of a second, of which 5 and 6 take three; a save of half a second; a resume."""
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


def test_figures_by_hand(run: Trained) -> None:
    assert (run.usual, run.extra, run.elapsed) == (1.0, 4.0, 14.0)
    assert by_hand.throughput(run) == pytest.approx(900 / 13)
    assert by_hand.usual_share(run) == pytest.approx(5 / 11), "without the first three"
    assert by_hand.of_all_ranks(run) == pytest.approx(4 / 14)
    assert by_hand.of_one_rank(run) + by_hand.of_the_others(run) == pytest.approx(4 / 14)
    assert by_hand.stalled(run) == pytest.approx(0.05)
    assert (by_hand.durable(run), by_hand.verified(run)) == (2.0, 1.0)
    assert (by_hand.lost_steps(run), by_hand.without_progress(run)) == (2.0, 7.0)
    assert by_hand.kept_share(run) == pytest.approx(14 / (14 + 2 + 7))
    assert by_hand.complete(run) == pytest.approx(24.0)
    assert by_hand.since_verified(run) == pytest.approx(14.0 - 4.0)
    assert by_hand.cost(run) == pytest.approx(4 * 14 / 3600 * by_hand.DEVICE_HOUR / 1000 * 1e6)


@pytest.mark.parametrize(
    ("measured", "expected"), [(1.0, True), (1.1, True), (1.2, False), (None, False)]
)
def test_what_differs_or_is_unknown_does_not_agree(measured: float | None, expected: bool) -> None:
    assert agrees(Row("any", by_hand.just(1.0), 0.1, 0.01), measured, 1.0) is expected


def test_a_share_stands_on_what_was_there_before(run: Trained) -> None:
    case = Case("case", "a fault", [], [Row("goodput", by_hand.just(0.5), 0, 0.01, True)])
    (row,) = rows_of(case, Ran({"goodput": 0.2}, {}, {"goodput": 0.6}, run))
    assert row["by_hand"] == pytest.approx(0.6) and row["agrees"]


def test_the_table_says_what_differs(run: Trained) -> None:
    case = Case("case", "a fault", [], [Row("goodput", by_hand.just(0.5))])
    shown = table([*rows_of(case, Ran({}, {"goodput": 0.7}, {"goodput": 0.9}, run))])
    assert "| goodput | a fault | unknown | 0.7 | 0.9 | 0.5 **differs** |" in shown
