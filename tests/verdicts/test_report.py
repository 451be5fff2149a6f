"""The table and the document say which values were measured, and which were not."""

from __future__ import annotations

import json
import math

from tests.verdicts.cases import cases
from tests.verdicts.report import document, line, table
from tests.verdicts.run import Ran
from tests.verdicts.scoring import Outcome, Verdict

HANG = next(case for case in cases() if case.name == "hang")
PLAIN = next(case for case in cases() if case.name == "plain")
assert HANG.truth is not None
VERDICT = Verdict("hang", min(HANG.truth.ranks), "forward", "not-arrived", 106.5, "it stands")


def ran(*verdicts: Verdict, healthy: bool = False, problem: str = "") -> Ran:
    case = PLAIN if healthy else HANG
    triggered = math.inf if healthy or problem else 100.0
    return Ran(case, Outcome(case.truth, triggered, verdicts), 0.1, 9.0, problem)


def test_a_line_says_how_right_a_verdict_was() -> None:
    assert line(ran(VERDICT)).startswith("right after 6.5 s: hang rank")
    assert line(ran(VERDICT._replace(rank=99))).startswith("wrong rank after 6.5 s")
    assert line(ran()).startswith("MISSED: no verdict")
    assert line(ran(healthy=True)).startswith("quiet")
    assert line(ran(VERDICT, healthy=True)).startswith("false alarm")
    assert line(ran(problem="the fault never triggered")).startswith("BROKEN (the fault never")


def test_the_table_has_a_row_per_case_and_leaves_broken_runs_out() -> None:
    lines = table([ran(VERDICT), ran(), ran(problem="it broke"), ran(healthy=True)]).splitlines()
    assert [row.split()[:2] for row in lines[1:4]] == [["hang", "2"], ["plain", "1"], ["all", "3"]]
    assert lines[1].split()[2:] == [
        "1.00",
        "0.50",
        "1.00",
        "1.00",
        "1.00",
        "6.5",
        "s",
        "6.5",
        "s",
        "0",
    ]


def test_the_document_holds_a_row_per_run_and_no_number_that_is_none() -> None:
    text = json.dumps(document([ran(VERDICT), ran(healthy=True), ran(problem="x")], "report"))
    read = json.loads(text, parse_constant=lambda name: 1 / 0)
    assert [row["problem"] for row in read["runs"]] == ["", "", "x"]
    assert read["runs"][0]["seconds"] == 6.5
    assert read["runs"][0]["truth"]["kinds"] == ["hang", "pause"]
    assert read["runs"][1]["truth"] is None
    assert read["totals"]["recall"] == 1.0
    assert read["totals"]["runs"] == 2
