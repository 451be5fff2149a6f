"""Playbooks: their shape, their tables, their numbers, and how the command shows them."""

from __future__ import annotations

import json
import math
import re

import pytest

from stepwatch import runbooks
from stepwatch.cli.main import OK, USAGE, main
from stepwatch.collector.detect import hang, straggler
from stepwatch.collector.nodes.limits import LIMITS as NODES
from stepwatch.signals.names import ALERT_NAMES

MOST_WORDS = 500
NAMES = runbooks.names(family=runbooks.PLAYBOOKS)
every_playbook = pytest.mark.parametrize("name", NAMES)


def text_of(name: str) -> str:
    """A playbook in one line."""
    return " ".join(runbooks.load(name, family=runbooks.PLAYBOOKS).markdown.split())


def rows_of(name: str) -> list[list[str]]:
    """Cells of the rows of a playbook's decision table, without its head."""
    markdown = runbooks.load(name, family=runbooks.PLAYBOOKS).markdown
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_decisions_that_are_promised_have_a_playbook() -> None:
    assert NAMES == (
        "drain-or-keep",
        "preemption-storm",
        "provider-acceptance",
        "restore-a-checkpoint",
        "roll-back-or-wait",
        "shrink-or-requeue",
    )


@every_playbook
def test_it_is_short_and_names_only_alerts_that_exist(name: str) -> None:
    text = text_of(name)
    assert len(text.split()) <= MOST_WORDS
    assert set(re.findall(r"\bTraining[A-Z]\w+", text)) <= ALERT_NAMES


@every_playbook
def test_each_row_of_its_table_has_a_sight_a_decision_and_a_reason(name: str) -> None:
    rows = rows_of(name)
    assert len(rows) >= 6
    assert all(len(cells) == 3 and all(cells) for cells in rows)
    assert any(re.search(r"\d", cells[2]) for cells in rows), "no reason has a number"


@every_playbook
def test_what_is_followed_twice_puts_no_checkpoint_into_another(name: str) -> None:
    lines = runbooks.load(name, family=runbooks.PLAYBOOKS).markdown.splitlines()
    for line in lines:
        assert "cp -a" not in line or line.startswith("test -e keep-step-GOOD || cp -a"), line
        assert not line.startswith("mv keep"), f"{line}: without -T it may go into a folder"
        assert "--job " not in line or "--job {job}" in line, f"{line}: another job is meant"
        assert "sacct" not in line or "sacct -a" in line, f"{line}: only jobs of whoever asks"


@pytest.mark.parametrize(
    ("name", "phrase", "stated", "computed"),
    [
        ("roll-back-or-wait", "wait 15 minutes", 900.0, hang.LIMITS.pause_seconds),
        ("roll-back-or-wait", "20 % lost of 10 hours left is 2 h", 2.0, 0.2 * 10),
        ("shrink-or-requeue", "8 nodes, 24 hours left: shrinking costs 3.4 h", 3.4, 24 / 7),
        ("shrink-or-requeue", "64 nodes, 24 hours left: shrinking costs 23 min", 23, 1440 / 63),
        ("shrink-or-requeue", "at 8 nodes above 87 %", 0.87, 7 / 8),
        ("drain-or-keep", "two faults within 7 days", 7, NODES.week_days),
        ("drain-or-keep", "two faults within", 2, NODES.offender_week),
        ("drain-or-keep", "three within 30", 3, NODES.offender_month),
        ("drain-or-keep", "one in nine months", 9, 16_384 * 54 / 419 / 8 / 30.4),
        ("preemption-storm", "S 20 s, M 30 min give 4.5 min", 4.5, math.sqrt(2 * 20 * 1800) / 60),
        ("preemption-storm", "R 5 min, I 4 min, M 30 min lose 23 %", 0.23, (5 + 4 / 2) / 30),
        ("provider-acceptance", "one in 50,700 device-hours", 50_700, 16_384 * 54 * 24 / 419),
        ("provider-acceptance", "48 hours expect 0.06", 0.06, 64 * 48 / 50_700),
        ("provider-acceptance", "one fault in 1,024 h", 1024, 64 * 48 / 3),
        ("provider-acceptance", "one in 6 %", 0.06, 0.0606 * math.exp(-0.0606)),
        ("provider-acceptance", "in 0.2 %", 0.002, 1 - 1.0606 * math.exp(-0.0606)),
        ("provider-acceptance", "1.5 times slower", 1.5, straggler.LIMITS.least_ratio),
    ],
)
def test_a_number_is_the_threshold_or_what_the_formula_gives(
    name: str, phrase: str, stated: float, computed: float
) -> None:
    assert phrase in text_of(name)
    assert computed == pytest.approx(stated, rel=0.13)


def test_the_command_lists_and_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runbook", "--playbook"]) == OK
    assert tuple(capsys.readouterr().out.split()) == NAMES
    assert main(["runbook", "--playbook", "--json"]) == OK
    assert json.loads(capsys.readouterr().out) == list(NAMES)
    assert main(["runbook", "--playbook", "drain-or-keep", "--json"]) == OK
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "drain-or-keep" and "Node <node> of job <job>" in shown["text"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--playbook", "drain-or-kepp"], "no playbook 'drain-or-kepp'; did you mean"),
        (["--playbook", "../pages/TrainingHang"], "`stepwatch runbook --playbook` lists all"),
        (["TrainingHang", "--playbook", "drain-or-keep"], "not both"),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runbook", *words]) == USAGE
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1
