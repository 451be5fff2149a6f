"""Right, honestly unknown and wrong columns of a killed job, on made documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainers.comparison import RIGHT, UNKNOWN, WRONG
from tests.trainers.programs.plan import Plan

from . import columns
from .columns import DEFAULT_SLOS
from .journal import Journal, read_journal

TRUE = {step: step / 100 for step in range(40)}


def curve(values: dict[int, float], kind: str = "steps") -> dict[str, Any]:
    return {kind: {"step": [*values], "mean": [*values.values()]}}


def metric(values: dict[int, float], name: str = "lr", evaluation: str = "") -> dict[str, Any]:
    curves = curve(values, "evaluations" if evaluation else "steps")
    return {"name": name, "evaluation": evaluation, "curves": curves}


def test_a_metric_has_each_value_at_its_step() -> None:
    def word(*metrics: dict[str, Any]) -> str:
        return columns.compare_metric(TRUE, list(metrics), "lr").word

    assert word(metric(TRUE)) == RIGHT
    assert word() == word(metric(TRUE, "epoch")) == word(metric({})) == UNKNOWN
    assert word(metric({step: TRUE[step] for step in range(5)})) == UNKNOWN, "5 of 40 steps"
    assert word(metric({step + 1: value for step, value in TRUE.items()})) == WRONG
    assert word(metric({**TRUE, 7: 0.0})) == word(metric({-1: 0.5, **TRUE})) == WRONG
    assert word(metric({**TRUE, 39: 0.0})) == RIGHT, "its other ranks' records are under way"


def test_an_evaluation_has_its_value_under_any_usual_name() -> None:
    true = {24: 4.1, 49: 3.9}

    def word(*metrics: dict[str, Any]) -> str:
        return columns.compare_validation(true, list(metrics)).word

    for name, evaluation in (("val_loss", "validation"), ("loss", "eval"), ("val_loss", "")):
        assert word(metric(true, name, evaluation)) == RIGHT
        assert word(metric({24: 4.1}, name, evaluation)) == WRONG
        assert word(metric({25: 4.1, 49: 3.9}, name, evaluation)) == WRONG
    assert word() == word(metric(TRUE, "loss")) == UNKNOWN


@pytest.mark.parametrize(
    ("state", "whole", "broken"),
    [
        ("verified", RIGHT, WRONG),
        ("damaged", WRONG, RIGHT),
        ("removed", WRONG, WRONG),
        ("written", UNKNOWN, UNKNOWN),
        ("unknown", UNKNOWN, UNKNOWN),
    ],
)
def test_a_checkpoint_must_have_its_true_state(state: str, whole: str, broken: str) -> None:
    item = {"step": 30, "state": state, "reason": "", "file": "a/b.pt", "path": "/run/30"}
    assert columns.check_verified([item], 30).word == whole
    assert columns.check_damage([item], 30, Path("/run/30/a/b.pt")).word == broken
    assert columns.check_verified([item], 60).word == UNKNOWN
    assert columns.check_damage([], 60, Path("/x")).word == UNKNOWN


def test_damage_in_another_file_is_wrong() -> None:
    item = {"step": 60, "state": "damaged", "reason": "", "file": "model.pt", "path": "/run/60"}
    mark = columns.check_damage([item], 60, Path("/run/60/optimizer.pt"))
    assert mark == (WRONG, "it names model.pt instead of optimizer.pt")


def job(**attempt: Any) -> dict[str, Any]:
    newest = {"first_step": 30, "resume": {"step": 30}, **attempt}
    return {"state": "finished", "attempts": [{"first_step": 0, "resume": None}, newest]}


def test_a_resume_is_right_with_its_step_only() -> None:
    assert columns.check_resume(job(), 30).word == RIGHT
    assert columns.check_resume(job(resume=None, first_step=0), 30).word == UNKNOWN
    assert columns.check_resume(job(resume={"step": 29}), 30).word == WRONG
    assert columns.check_resume(job(first_step=0), 30).word == WRONG
    assert columns.check_resume({**job(), "state": "running"}, 30).word == WRONG


def test_a_loss_that_continues_must_not_be_a_jump() -> None:
    def word(continued: bool | None) -> str:
        resume = {"loss_continued": continued, "loss_before": 4.0, "loss_after": 9.0}
        return columns.check_loss(job(resume=resume)).word

    assert (word(True), word(None), word(False)) == (RIGHT, UNKNOWN, WRONG)
    assert columns.check_loss(job()).word == columns.check_loss(job(resume=None)).word == UNKNOWN


def test_every_default_slo_needs_a_known_state() -> None:
    def states(**changed: str) -> dict[str, Any]:
        known = {**dict.fromkeys(DEFAULT_SLOS, "ok"), "goodput": "too-early", **changed}
        return {
            "slos": [
                {"name": name, "state": state, "reason": "nothing resumed"}
                for name, state in known.items()
            ]
        }

    assert columns.check_slos(states()).word == RIGHT
    mark = columns.check_slos(states(**{"resume-success": "unknown"}))
    assert mark == (UNKNOWN, "resume-success (nothing resumed)")
    assert columns.check_slos({"slos": states()["slos"][1:]}).word == WRONG


def test_a_journal_holds_the_lines_of_killed_ranks(tmp_path: Path) -> None:
    plan = Plan("job", str(tmp_path))
    assert read_journal(plan).newest_step == -1
    plan.journal_file(0).write_text('{"step": 0, "lr": 0.1}\n{"step": 1, "saved": "/a"}\n{"st')
    plan.journal_file(1).write_text('{"step": 0, "lr": 0.3}\n')
    journal = read_journal(plan)
    assert journal.values("lr") == {0: pytest.approx(0.2)}
    assert (journal.saves(), journal.newest_step) == (["/a"], 0)
    assert Journal({}).newest_step == -1
