"""`stepwatch check`: it passes on this tree, and every break on purpose is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from stepwatch.cli import artefacts
from stepwatch.cli.main import OK, PROBLEM, USAGE, main

RULES = "alerts/generated/training.rules.yaml"
TESTS = "alerts/generated/training.rules.test.yaml"
DASHBOARD = "dashboards/generated/training-job.json"
PAGE = "runbooks/pages/TrainingHang.md"

Check = Callable[[], list[str]]


BUILT_ONCE = cache(artefacts.build)


@pytest.fixture(autouse=True)
def built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same links give the same artefacts: they are built for the first check only."""
    monkeypatch.setattr(artefacts, "build", BUILT_ONCE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    source = artefacts.checkout(Path(__file__).resolve())
    assert source is not None
    for folder in ("alerts/generated", "dashboards/generated", "runbooks/pages"):
        shutil.copytree(source / folder, tmp_path / folder)
    return tmp_path


@pytest.fixture
def problems(root: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    def check() -> list[str]:
        code = main(["check", "--root", str(root), "--json"])
        answer = json.loads(capsys.readouterr().out)
        assert code == (OK if answer["ok"] else PROBLEM)
        return [f"{problem['where']}: {problem['what']}" for problem in answer["problems"]]

    return check


def replace(path: Path, right: str, wrong: str) -> None:
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong))


def files_under(root: Path) -> int:
    """How many files the check has to read: rules and their tests, dashboards, runbooks."""
    return sum(path.is_file() for path in root.rglob("*"))


@pytest.mark.parametrize(
    "text",
    ["groups: [", "a: &x\n  b: *x\n", "[" * 200_000, "{a: " * 200_000],
    ids=["open", "holds itself", "deep list", "deep map"],
)
def test_what_no_parser_takes_is_named(root: Path, problems: Check, text: str) -> None:
    (root / RULES).write_text(text)
    assert f"{RULES}: is not YAML; run `stepwatch build`" in problems()


def test_this_tree_is_closed(problems: Check) -> None:
    assert problems() == []


def test_the_checkout_around_here_is_the_default(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    assert main(["check"]) == OK
    assert capsys.readouterr().out == f"{files_under(root)} files checked: no problems\n"


def test_outside_a_checkout_it_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check"]) == USAGE
    assert "--root DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "right", "wrong", "complaint"),
    [
        (
            RULES,
            "stepwatch_straggler_slowdown_ratio",
            "stepwatch_slowdown",
            "alert TrainingStraggler nothing exports stepwatch_slowdown",
        ),
        (
            RULES,
            'kind="hang"',
            'sort="hang"',
            "recording job_name:TrainingHang:condition stepwatch_incident_open uses label 'sort'",
        ),
        (
            RULES,
            "stepwatch_straggler_rank{",
            "stepwatch_straggling_rank{",
            "in description nothing exports stepwatch_straggling_rank",
        ),
        (
            RULES,
            "- record: job_name_attempt:stepwatch_job_info:last_timestamp_seconds",
            "- record: job_name_attempt:stepwatch_job_info:last_seen_seconds",
            "TrainingCrashLoop:condition nothing exports job_name_attempt:stepwatch_job_info:last_",
        ),
        (
            RULES,
            "max by (job_name, attempt) (stepwatch_job_info)",
            "max by (job_name, attempt) (stepwatch_info)",
            "recording job_name_attempt:stepwatch_job_info:last_timestamp_seconds nothing exports",
        ),
        (RULES, "$labels.job_name", "$labels.rank", "shows label 'rank', which the alert does"),
        (RULES, "severity: ticket", "severity: whisper", "has severity 'whisper'"),
        (RULES, "  impact:", "  effect:", "has no annotation impact"),
        (
            RULES,
            "runbooks/TrainingHang",
            "runbooks/TrainingHung",
            "alert TrainingHang links to another runbook",
        ),
        (
            RULES,
            "stepwatch status`",
            "stepwatch state`",
            "in first_action uses verb 'state'",
        ),
        (
            RULES,
            "alert: TrainingHang",
            "alert: TrainingHung",
            "alert TrainingHung has no runbook; write runbooks/pages/TrainingHung.md",
        ),
        (
            RULES,
            "alert: TrainingHang",
            "alert: TrainingHung",
            f"{PAGE}: no alert is named TrainingHang; did you mean 'TrainingHung'?",
        ),
        (
            RULES,
            "alert: TrainingHang",
            "alert: TrainingHung",
            "finding 'hang' names alert TrainingHang, which no rule defines",
        ),
        (
            TESTS,
            "alertname: TrainingHang",
            "alertname: TrainingHung",
            "alert TrainingHang has no test in which it fires",
        ),
        (TESTS, "stepwatch_job_running", "stepwatch_running", "nothing exports stepwatch_running"),
        (
            DASHBOARD,
            "stepwatch_job_loss",
            "stepwatch_loss",
            "panel 'Loss' nothing exports stepwatch_loss; did you mean 'stepwatch_job_loss'?",
        ),
        (DASHBOARD, "{{phase}}", "{{rank}}", "shows label 'rank', which its query drops"),
        (
            DASHBOARD,
            "label_values(stepwatch_job_info, job_name)",
            "label_values(stepwatch_job_info, name)",
            "variable 'job' label_values uses label 'name'",
        ),
        (
            DASHBOARD,
            "Runbook TrainingHang",
            "Runbook TrainingHung",
            "links to runbook TrainingHung, which is missing",
        ),
        (PAGE, "{incident}", "{ticket}", "unknown placeholder {ticket}; use one of {job}"),
        (
            PAGE,
            "stepwatch status",
            "stepwatch stat",
            "the command has no verb 'stat'; did you mean 'status'?",
        ),
        (PAGE, "## Escalation", "## Whom to call", "sections must be, in this order"),
        (
            "runbooks/pages/TrainingTelemetryLost.md",
            "stepwatch_agent_spool_bytes",
            "stepwatch_agent_spool_size",
            "names stepwatch_agent_spool_size, which nothing exports",
        ),
    ],
)
def test_a_broken_name_is_named(
    root: Path, problems: Check, path: str, right: str, wrong: str, complaint: str
) -> None:
    replace(root / path, right, wrong)
    found_problems = problems()
    assert any(complaint in problem for problem in found_problems), found_problems


@pytest.mark.parametrize("path", [RULES, TESTS, DASHBOARD])
def test_one_changed_byte_is_stale(root: Path, problems: Check, path: str) -> None:
    with (root / path).open("a") as file:
        file.write("\n")
    assert problems() == [f"{path}: stale: run `stepwatch build`"]


@pytest.mark.parametrize("path", [RULES, TESTS, DASHBOARD])
def test_a_missing_file_is_named(root: Path, problems: Check, path: str) -> None:
    (root / path).unlink()
    assert f"{path}: missing: run `stepwatch build`" in problems()


@pytest.mark.parametrize(
    "text", ["", "[1, 2", "null", "{}", '{"panels": 3}', "alert: {expr: [1]}", "&a [*a]"]
)
@pytest.mark.parametrize("path", [RULES, TESTS, DASHBOARD])
def test_a_file_of_any_shape_is_a_problem_not_a_crash(
    root: Path, problems: Check, path: str, text: str
) -> None:
    (root / path).write_text(text)
    assert f"{path}: stale: run `stepwatch build`" in problems()


def test_a_file_that_no_build_writes_is_named(root: Path, problems: Check) -> None:
    (root / "dashboards/generated/old.json").write_text("{}")
    assert problems() == ["dashboards/generated/old.json: no build writes this file; delete it"]


def test_a_missing_runbook_is_named(root: Path, problems: Check) -> None:
    (root / PAGE).unlink()
    found_problems = problems()
    assert f"{RULES}: alert TrainingHang has no runbook; write {PAGE}" in found_problems
    assert any(problem.startswith(DASHBOARD) for problem in found_problems)


def test_a_runbook_without_alert_is_named(root: Path, problems: Check) -> None:
    page = (root / PAGE).read_text().replace("# TrainingHang", "# TrainingNap")
    (root / "runbooks/pages/TrainingNap.md").write_text(page)
    found_problems = problems()
    assert found_problems == [
        "runbooks/pages/TrainingNap.md: no alert is named TrainingNap; did you mean 'TrainingHang'?"
    ]


def test_a_file_that_is_no_text_is_one_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / RULES).write_bytes(b"\xff\xfe")
    assert main(["check", "--root", str(root)]) == PROBLEM
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cannot read" in error


def test_a_metric_that_nothing_reads_is_named(root: Path, problems: Check) -> None:
    dashboard = root / "dashboards/generated/stepwatch.json"
    replace(dashboard, "stepwatch_agent_spool_segments", "stepwatch_agent_spool_bytes")
    assert any(
        "names: nothing reads stepwatch_agent_spool_segments; show it" in problem
        for problem in problems()
    )


@pytest.mark.parametrize(
    ("drill", "complaint"),
    [("", "is empty; write it"), ("Never.\n", "names no command and no test; write what to run")],
)
def test_an_alert_whose_drill_nobody_wrote_is_named(
    root: Path, problems: Check, drill: str, complaint: str
) -> None:
    page = root / PAGE
    text = page.read_text()
    page.write_text(f"{text[: text.index('## Last drill')]}## Last drill\n{drill}")
    (problem,) = problems()
    assert problem.startswith(f"{PAGE}:") and problem.endswith(f"section 'Last drill' {complaint}")


def test_every_problem_is_one_line_that_ends_in_a_count(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(root / DASHBOARD, "stepwatch_job_loss", "stepwatch_loss")
    assert main(["check", "--root", str(root)]) == PROBLEM
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{files_under(root)} files checked: 3 problems"
    assert len(lines) == 4
