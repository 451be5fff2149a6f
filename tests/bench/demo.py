"""The demo from start to report, and its time from fault to verdict."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .result import Result


def measure() -> Iterator[Result]:
    """Measure one demo with the default fault."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        began = time.monotonic()
        words = [sys.executable, "-m", "stepwatch.cli", "demo", "--json", str(report)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - began
        document = json.loads(report.read_text())
    step = f"step p50 {document['step_seconds']['p50']:.2f} s"
    yield Result("demo, start to report", f"{seconds:.0f} s", "120 s", step)
    for incident in document["incidents"]:
        delay = f"{incident['detected_after_seconds']:.1f} s"
        yield Result("fault to verdict", delay, "10 s", f"rank {incident['rank']}; {step}")
