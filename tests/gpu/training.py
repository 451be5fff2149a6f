"""The reference trainer as a command, for checks that need its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepwatch.signals import places
from tests.services import ROOT


def train(words: Sequence[str], rings: Path | None = None) -> dict[str, Any]:
    """Return the JSON report of a run, which stepwatch watches if `rings` is given.

    Raises:
        RuntimeError: it failed; its last lines say why.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        watched = {places.ENV_DISABLE: "1"} if rings is None else {places.ENV_RING_DIR: str(rings)}
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "stepwatch.cli", "train", *words),
                *("--run-dir", f"{folder}/run", "--json", str(report)),
            ],
            capture_output=True,
            text=True,
            env={**os.environ, **watched},
            cwd=ROOT,
        )
        if ended.returncode:
            raise RuntimeError("; ".join(ended.stderr.strip().splitlines()[-6:])[-800:])
        document: dict[str, Any] = json.loads(report.read_text())
        return document
