"""Streams that are closed, full or without a reader: no verb crashes, and a training begins."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from stepwatch.signals import presence
from stepwatch.signals.presence import Presence

STEPWATCH = f"{sys.executable} -m stepwatch.cli"
CLOSED = ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"]
WITHOUT_WORK = [
    "--version",
    "--help",
    "status --help",
    "status --store none.db",
    "slo check x.yaml",
]


def shell(line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """What a line of bash ends with."""
    words = ["bash", "-c", line]
    return subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, **environ}, check=False
    )


@cache
def with_its_streams(words: str) -> subprocess.CompletedProcess[str]:
    """The end of a verb whose streams are all there."""
    return shell(f"{STEPWATCH} {words}")


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("words", WITHOUT_WORK)
def test_a_verb_without_a_stream_ends_as_with_it(words: str, closed: str) -> None:
    expected = with_its_streams(words)
    ended = shell(f"{STEPWATCH} {words} {closed}")
    assert ended.returncode == expected.returncode and "Traceback" not in ended.stderr
    assert ended.stdout in ("", expected.stdout) and ended.stderr in ("", expected.stderr)


@pytest.mark.parametrize("closed", [*CLOSED, ">/dev/full", "2>/dev/full", ">/dev/full 2>&1"])
def test_a_training_starts_whatever_its_streams_are(closed: str, tmp_path: Path) -> None:
    page = "http://127.0.0.1:8480"
    agent = Presence(os.getpid(), page, page, presence.CONNECTED, time.monotonic_ns(), {})
    presence.write(tmp_path, agent)
    began = tmp_path / "began"
    line = f"{STEPWATCH} run --job a -- touch {began} {closed}"
    ended = shell(line, STEPWATCH_RING_DIR=str(tmp_path))
    assert (ended.returncode, began.exists()) == (0, True), ended.stderr


def test_a_training_without_stdout_writes_into_no_file_of_ours(tmp_path: Path) -> None:
    code = "import os; print(os.readlink('/proc/self/fd/1'), file=open('seen', 'w')); print('x')"
    ended = shell(f'cd {tmp_path}; {STEPWATCH} run --job a -- {sys.executable} -c "{code}" >&-')
    assert ended.returncode == 0 and (tmp_path / "seen").read_text() == "/dev/null\n"


@pytest.mark.parametrize("words", ["--help", "status --help", "runbook TrainingHang"])
def test_a_full_disk_is_one_line(words: str) -> None:
    ended = shell(f"{STEPWATCH} {words} >/dev/full")
    assert ended.returncode == 1
    assert ended.stderr == "stepwatch: cannot write the output: no space left\n"


@pytest.mark.parametrize("words", ["--help", "status --help", "runbook TrainingHang"])
def test_a_reader_that_has_enough_is_no_error(words: str) -> None:
    ended = shell(f"{STEPWATCH} {words} | true; echo ${{PIPESTATUS[0]}}")
    assert (ended.stdout, ended.stderr) == ("0\n", "")
    ended = shell(f"{STEPWATCH} {words} 2>&1 | true; echo ${{PIPESTATUS[0]}}")
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_a_problem_stays_one_where_nothing_reads_it(tmp_path: Path) -> None:
    line = f"{STEPWATCH} status --store {tmp_path}/none.db"
    assert shell(f"{line} 2>/dev/full").returncode == 2
    assert shell(f"{line} 2>&1 | true; exit ${{PIPESTATUS[0]}}").returncode == 2
