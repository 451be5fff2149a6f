"""Runs a program on the simulated device and returns each rank's figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.ranks.forked import ROOT, ForkedRanks

AUTOLOAD = Path(__file__).parent / "autoload"
PROGRAMS = "tests.simulated_device.programs"
SECONDS = 300
"""A build on a busy machine takes minutes; a test that hangs ends here."""


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a rank: one thread, the repository, no hooks, and changes."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("STEPWATCH")
    }
    fixed = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "STEPWATCH_DISABLE": "1"}
    return {**inherited, **fixed, **changes}


def run_under_torchrun(words: list[str], ranks: int, **changes: str) -> None:
    """Run `python -m <words>` under torchrun, as a user starts it."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"]
    completed = subprocess.run(
        [sys.executable, *launcher, *words],
        cwd=ROOT,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]


def run(forked: ForkedRanks, words: list[str], ranks: int, folder: Path, **changes: str) -> None:
    """Run `python -m <words>` on ranks that have torch imported."""
    ended = forked.run(["-m", *words], ranks, folder, environment(**changes))
    assert ended.codes == [0] * ranks, ended.output[-3000:]


def figures(
    forked: ForkedRanks, program: str, ranks: int, folder: Path, *words: str
) -> list[dict[str, Any]]:
    """Return each rank's figures of a program, by rank."""
    run(forked, [f"{PROGRAMS}.{program}", str(folder), *words], ranks, folder)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
