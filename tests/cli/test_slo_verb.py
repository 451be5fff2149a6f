"""`stepwatch slo`: budgets of jobs, and documents that are wrong or ask for what cannot be."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo import asked
from stepwatch.collector.store import Store
from tests.collector.made import JOB, HandClock, body, run_segments

SHIPPED = (resources.files(asked) / "documents" / "step-time.yaml").read_text(encoding="utf-8")


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    service = Service(store, HandClock(30.0))
    service.receive(body(run_segments(120)))
    service.evaluate()
    store.close()
    return path


def test_budgets_of_jobs(worked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", "--store", str(worked)]) == OK
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split()[:3] == ["job", "SLO", "state"]
    assert f"{JOB}  goodput  too early" in shown
    assert main(["slo", "--store", str(worked), "--json"]) == OK
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["job"], line["name"], line["state"]) == (JOB, "goodput", "too-early")


def test_one_job_with_its_slis(worked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", JOB, "--store", str(worked)]) == OK
    shown = capsys.readouterr().out
    assert f"{JOB}  goodput  too early" in shown
    known_part, unknown = shown.split("not known")
    assert "step-time-p50" in known_part and "200 ms" in known_part
    assert "job-success" in unknown and "it has not ended" in unknown
    assert main(["slo", JOB, "--store", str(worked), "--json"]) == OK
    document = json.loads(capsys.readouterr().out)
    assert (document["job"], document["slos"][0]["state"]) == (JOB, "too-early")
    by_name = {sli["name"]: sli for sli in document["slis"]}
    assert by_name["step-time-p50"]["value"] == pytest.approx(0.2)
    assert by_name["mfu"]["value"] is None and by_name["mfu"]["unknown"]


def test_each_sli_is_defined_with_its_trap(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", "--definitions"]) == OK
    assert "goodput: device-time of work that was preserved" in capsys.readouterr().out
    assert main(["slo", "--definitions", "--json"]) == OK
    assert all(sli["trap"] for sli in json.loads(capsys.readouterr().out))


def test_a_document_that_is_right_says_when_its_alerts_fire(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(SHIPPED)
    assert main(["slo", "check", str(path)]) == OK
    shown = capsys.readouterr().out
    assert "step-time: at least 95% good, over the last 28 days" in shown
    assert "is a burn rate of 13.44: from 67% bad device-time on" in shown


def test_an_alert_that_can_never_fire_is_refused_with_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "loose.yaml"
    path.write_text(SHIPPED.replace("target: 0.95", "target: 0.5"))
    assert main(["slo", "check", str(path)]) == PROBLEM
    shown = capsys.readouterr().out
    assert "a burn rate of 13.44; with all of it bad it is 2.00, so this can never fire" in shown


def test_what_is_wrong_is_said_with_its_line_and_the_others_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(SHIPPED)
    bad.write_text(SHIPPED.replace("target: 0.95", "target: 95"))
    assert main(["slo", "check", str(bad), str(good)]) == PROBLEM
    captured = capsys.readouterr()
    assert captured.err.startswith(f"{bad}:") and "target" in captured.err
    assert str(good) in captured.out


@pytest.mark.parametrize("words", [["check"], ["check", "no-such-file.yaml"], ["../x"]])
def test_wrong_use_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", *words]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_of_documents_with_a_site_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, site = tmp_path / "slos", tmp_path / "site.yaml"
    folder.mkdir()
    (folder / "step-time.yaml").write_text(SHIPPED)
    site.write_text("classes:\n  production:\n    slos: [step-time]\n")
    assert main(["slo", "check", str(folder), "--site", str(site)]) == OK
    assert "step-time: at least 95% good, over the last 28 days" in capsys.readouterr().out
    site.write_text("classes:\n  production:\n    slos: [steptime]\n")
    assert main(["slo", "check", str(folder), "--site", str(site)]) == PROBLEM
    assert "there is no SLO 'steptime'; did you mean 'step-time'?" in capsys.readouterr().err
    assert main(["slo", "check", str(folder), str(folder), "--site", str(site)]) == USAGE


def test_a_limit_is_checked_without_burn_rates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "limit.yaml"
    documents = resources.files(asked) / "documents"
    path.write_text((documents / "checkpoint-stall.yaml").read_text(encoding="utf-8"))
    assert main(["slo", "check", str(path)]) == OK
    shown = capsys.readouterr().out
    assert shown == f"{path}: checkpoint-stall: checkpoint-stall at most 0.01 over the run\n"
