"""Runs end with all their ranks."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from stepwatch.cli.processes import MARK, marked_processes
from tests.trainers.cells import Cell, cells
from tests.trainers.run import start_run
from tests.trainers.site import Site

RANK = f"""
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(os.environ["{MARK}"])
time.sleep(600)
"""
LAUNCHER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], start_new_session=True)
time.sleep(600)
"""


def test_a_rank_that_ignores_its_launchers_signal_ends_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, site, output = next(cells()), Site(tmp_path, tmp_path), tmp_path / "said"
    words = [sys.executable, "-c", LAUNCHER, RANK, str(output)]
    monkeypatch.setattr(Cell, "command", lambda self, plan, *, watched: words)
    with start_run(cell, site, cell.plan(tmp_path / "run", "run"), watched=True):
        while not output.exists() or not output.read_text():
            time.sleep(0.05)
        assert len(marked_processes(output.read_text())) == 2
    assert marked_processes(output.read_text()) == []
