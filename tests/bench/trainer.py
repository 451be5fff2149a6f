"""The reference trainer: hooks on and off, async and sync saves, bubbles."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepwatch.signals import places

from .result import Result

PAIRS, STEPS = 3, 40
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zbv")


def measure() -> Iterator[Result]:
    """Measure runs of the default model on four CPU ranks."""
    yield _compare_hooks()
    yield from _saves()
    for schedule in SCHEDULES:
        bubble = _train("--schedule", schedule, "--steps", "20")["bubble"]
        yield Result(
            f"pipeline bubble, {schedule}",
            f"{bubble['measured']:.1%}",
            "ideal + 5 points",
            f"ideal {bubble['ideal']:.1%}; ranks share cores here, which counts as bubble",
        )


def _compare_hooks() -> Result:
    ratios = []
    for _ in range(PAIRS):
        on = _train("--steps", str(STEPS))
        off = _train("--steps", str(STEPS), **{places.ENV_DISABLE: "1"})
        ratios.append(off["step_seconds"]["p50"] / on["step_seconds"]["p50"])
    spread = f"{min(ratios):.3f} to {max(ratios):.3f} in {PAIRS} pairs"
    return Result(
        "trainer, hooks on / off, by median step",
        f"{statistics.median(ratios):.3f}",
        "0.999",
        f"{spread}; step p50 {off['step_seconds']['p50']:.2f} s",
    )


def _saves() -> Iterator[Result]:
    stalls = {}
    for mode in ("async", "sync"):
        words = ("--steps", str(STEPS), "--checkpoint-every", "10", "--checkpoint-mode", mode)
        report = _train(*words)
        saves = report["checkpoints"]
        seconds = sum(save["stall_seconds"] for save in saves)
        stalls[mode] = seconds / (STEPS * report["step_seconds"]["p50"])
        verified = sum(save["verified"] for save in saves)
        yield Result(
            f"checkpoint stall, {mode}, a save every 10 steps",
            f"{stalls[mode]:.2%}",
            "1 %" if mode == "async" else "none",
            f"{verified} of {len(saves)} verified, {seconds / len(saves) * 1e3:.0f} ms each",
        )
    yield Result(
        "checkpoint stall, async / sync",
        f"{stalls['async'] / stalls['sync']:.3f}",
        "none",
        "of run time, both as above",
    )


def _train(*words: str, **environ: str) -> dict[str, Any]:
    """Return the JSON report of one run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        place = {places.ENV_RING_DIR: f"{folder}/rings"}
        subprocess.run(
            [
                *(sys.executable, "-m", "stepwatch.cli", "train", *words),
                *("--run-dir", f"{folder}/run", "--json", str(report)),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **place, **environ},
        )
        document: dict[str, Any] = json.loads(report.read_text())
        return document
