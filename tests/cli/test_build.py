"""`stepwatch build`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from stepwatch.cli import artefacts
from stepwatch.cli.main import OK, PROBLEM, USAGE, main

BOARDS = {
    "training-job.json",
    "on-call.json",
    "executive.json",
    "nodes.json",
    "checkpoints.json",
    "stepwatch.json",
    "cost.json",
    "debug.json",
    "fabric.json",
    "fleet.json",
    "slo.json",
}
FILES = BOARDS | {
    "training.rules.yaml",
    "training.rules.test.yaml",
    "training.rules.days.test.yaml",
}


def test_it_writes_everything_and_prints_each_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "--out", str(tmp_path / "new" / "folder")]) == OK
    printed = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.name for path in printed} == FILES
    assert all(path.parent == tmp_path / "new" / "folder" for path in printed)
    assert set(printed) == set((tmp_path / "new" / "folder").iterdir())


@pytest.mark.parametrize(
    ("part", "files"),
    [
        ("dashboards", BOARDS),
        ("alerts", FILES - BOARDS),
        ("all", FILES),
    ],
)
def test_it_writes_what_was_asked_for(tmp_path: Path, part: str, files: set[str]) -> None:
    assert main(["build", part, "--out", str(tmp_path)]) == OK
    assert {path.name for path in tmp_path.iterdir()} == files


def test_addresses_reach_rules_and_dashboard(tmp_path: Path) -> None:
    words = ["build", "--out", str(tmp_path)]
    words += ["--runbook-url", "https://w.example/r/", "--dashboard-url", "https://g.example/"]
    words += ["--page-url", "https://c.example/"]
    assert main(words) == OK
    groups = yaml.safe_load((tmp_path / "training.rules.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    shown = next(rule["annotations"] for rule in rules if "alert" in rule)
    assert shown["runbook_url"].startswith("https://w.example/r/TrainingHang?job=")
    assert shown["dashboard_url"].startswith("https://g.example/d/stepwatch-training-job?var-job=")
    page = json.loads((tmp_path / "training-job.json").read_text())
    addresses = [link["url"] for link in page["links"] if link["type"] == "link"]
    assert "https://w.example/r/TrainingDesync?job=${job:percentencode}" in addresses
    runbooks = [url for url in addresses if "c.example" not in url]
    assert all(url.startswith("https://w.example/r/Training") for url in runbooks)
    assert "https://c.example/jobs/${job:percentencode}" in addresses


def test_in_a_checkout_it_writes_the_generated_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landmark = tmp_path / "alerts/stepwatch/alerts/catalogue.py"
    landmark.parent.mkdir(parents=True)
    landmark.touch()
    (tmp_path / "deep" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "inside")
    assert main(["build"]) == OK
    assert (tmp_path / "alerts/generated/training.rules.yaml").is_file()
    assert (tmp_path / "dashboards/generated/training-job.json").is_file()


def test_elsewhere_it_asks_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build"]) == USAGE
    assert "--out DIR" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("here")
    assert main(["build", "--out", str(tmp_path / "file")]) == PROBLEM
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"cannot write {tmp_path}/file/" in error


def test_unknown_kind_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "rockets"]) == USAGE
    assert "rockets" in capsys.readouterr().err


def test_the_checkout_of_this_file_is_found() -> None:
    root = artefacts.checkout(Path(__file__).resolve())
    assert root is not None
    assert (root / "pyproject.toml").is_file()
