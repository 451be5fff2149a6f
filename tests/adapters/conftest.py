"""Real scripts under `stepwatch run`, and the records in their ranks' black boxes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect import straggler
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.evidence.step_window import StepRing
from stepwatch.signals.records import Kind
from tests.hooks.conftest import (
    LAUNCHER,
    Tables,
    metric_values,
    rings,
    run,
    tables_in,
    watch,
)

__all__ = ["Tables", "metric_values", "rings", "run", "tables_in", "watch"]

SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 300
RUN = [sys.executable, "-m", "stepwatch.cli", "run"]
Launch = Callable[..., "subprocess.CompletedProcess[str]"]


def torchrun(ranks: int, script: str, *words: str) -> list[str]:
    """Command that runs one of our scripts on `ranks` ranks."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, f"--nproc-per-node={ranks}", str(SCRIPTS / script), *words]


@pytest.fixture
def launch(rings: Path) -> Launch:
    """Runs a command as a user would, with nothing of a launcher around it."""

    def start(*words: str, **environ: str) -> Any:
        outer = {name: os.environ[name] for name in os.environ if name not in LAUNCHER}
        paths = os.pathsep.join(filter(None, sys.path))
        environment = {**outer, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environ}
        with subprocess.Popen(
            words,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, errors)

    return start


def verdicts(tables: Tables) -> list[Finding]:
    """Return the straggler detector's findings on these ranks, without facts of their node."""
    ring = StepRing(len(tables))
    for rank in tables:
        ring.add(tables[rank][Kind.STEP])
    unknown = np.full(len(tables), np.nan)
    window = ring.window(64, np.full(len(tables), -1, dtype=np.int16))
    return straggler.detect(window, straggler.RankFacts(unknown, unknown), straggler.LIMITS)


def losses(folder: Path, ranks: int) -> list[list[str]]:
    """Losses that each rank wrote, to the last bit."""
    files = [folder / f"{rank}.json" for rank in range(ranks)]
    return [[float(loss).hex() for loss in json.loads(file.read_text())] for file in files]
