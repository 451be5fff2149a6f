"""The checks run where there is no GPU: as a rehearsal, which finds their mistakes beforehand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.__main__ import main
from tests.gpu.checks import CHECKS, Check
from tests.gpu.finding import Finding, is_within, read, write
from tests.services import ROOT

torch = pytest.importorskip("torch")


def test_without_a_gpu_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert main([]) == 2
    assert "no GPU here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "names", [["machine", "waits"], pytest.param(list(CHECKS), marks=pytest.mark.matrix)]
)
@pytest.mark.long(
    "tests/gpu/test_checks.py::test_a_check_that_takes_too_long_is_ended_and_counts",
)
def test_checks_are_rehearsed(tmp_path: Path, names: list[str]) -> None:
    words = ["--rehearse", "--only", *names, "--to", str(tmp_path / "found")]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.gpu", *words], capture_output=True, text=True, cwd=ROOT
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    checks = json.loads((tmp_path / "found").read_text())["checks"]
    assert [check["name"] for check in checks] == names
    assert all(check["findings"] and not check["problem"] for check in checks)
    assert "bitwise equal" in ended.stdout
    assert f"0 of {len(names)} checks failed" in ended.stdout


def test_a_check_that_takes_too_long_is_ended_and_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CHECKS, "machine", Check(0.1, timed=False))
    assert main(["--rehearse", "--only", "machine"]) == 1
    printed = capsys.readouterr().out
    assert "ran out of time after 0 s" in printed
    assert "1 of 1 checks failed" in printed


def test_findings_are_kept_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "findings"
    write(path, [Finding("a", "1", "1", True, {"value": 1})])
    write(path, [Finding("b", "unknown")])
    assert [finding.holds for finding in read(path)] == [True, None]
    assert read(tmp_path / "none") == []


def test_what_is_no_number_is_within_nothing() -> None:
    assert is_within(1.01, 0.02)
    assert not is_within(1.03, 0.02)
    assert not is_within(float("nan"), 0.02)
