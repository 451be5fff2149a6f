"""Runs a program on the simulated device and returns what each rank saw."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
AUTOLOAD = Path(__file__).parent / "autoload"
PROGRAMS = "tests.simulated_device.programs"
SECONDS = 300
"""A build on a busy machine takes minutes; a test that hangs ends here."""


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a rank: one thread, the repository, and the device for all."""
    paths = os.pathsep.join((str(ROOT), str(AUTOLOAD)))
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **changes}


def run(words: list[str], ranks: int = 0, **changes: str) -> None:
    """Run `python -m <words>`, under torchrun if a number of ranks is given."""
    launcher = ["-m"]
    if ranks:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"]
    done = subprocess.run(
        [sys.executable, *launcher, *words],
        cwd=ROOT,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def figures(program: str, folder: Path, ranks: int = 0, *words: str) -> list[dict[str, Any]]:
    """Return what each rank of a program wrote, by rank."""
    run([f"{PROGRAMS}.{program}", str(folder), *words], ranks, STEPWATCH_DISABLE="1")
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks or 1)]
