"""Verbs in a cold process: from the start to the printed answer, and the doctor's first line."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cli.test_cold_imports import JOB, simulated
from tests.collector.process import running

from .result import Result

RUNS = 15
VERBS = ("status --all", f"status {JOB}", "incidents", f"diagnose {JOB}", "nodes", "slo")
_STEPWATCH = (sys.executable, "-m", "stepwatch.cli")


def measure() -> Iterator[Result]:
    """Ask a collector with one job and one incident, in turns with an empty interpreter."""
    with tempfile.TemporaryDirectory() as place, running(Path(place)) as process:
        with contextlib.redirect_stdout(sys.stderr):
            simulated(process)
        for verb in VERBS:
            words = [*_STEPWATCH, *verb.split(), "--collector", process.url]
            empty = [sys.executable, "-c", "pass"]
            seconds = [(_seconds(words), _seconds(empty)) for _ in range(RUNS)]
            mine, beside = (statistics.median(column) for column in zip(*seconds, strict=True))
            yield Result(
                f"stepwatch {verb}", f"{mine * 1000:.0f} ms", "150 ms",
                f"an empty interpreter {beside * 1000:.0f} ms; medians of {RUNS}",
            )  # fmt: skip
    first, whole = _doctor()
    yield Result(
        "stepwatch doctor: first line", f"{first * 1000:.0f} ms", "none",
        f"all lines {whole:.1f} s: rates over 5 s, and a child that imports torch",
    )  # fmt: skip


def _seconds(words: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def _doctor() -> tuple[float, float]:
    """Return the seconds to the doctor's first line, and to its end."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*_STEPWATCH, "doctor", "--kernel-log", os.devnull], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - began
        process.stdout.read()
    return first, time.perf_counter() - began
