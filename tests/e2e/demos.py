"""Demos that tests run, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

STEPS = 32


class DemoRun(NamedTuple):
    """A finished demo: its folder, its JSON, and its output."""

    folder: Path
    report: dict[str, Any]
    output: str


def demo_words(*words: str) -> list[str]:
    """Command line of a demo."""
    return [sys.executable, "-m", "stepwatch.cli", "demo", *words]


def demo_rings() -> set[Path]:
    """Ring directories of demos on this machine."""
    return set(Path("/dev/shm").glob("stepwatch-demo-*"))


def run_demo(folder: Path, *words: str, steps: int = STEPS) -> DemoRun:
    """Run a demo to its end."""
    report, rings_before = folder / "report.json", demo_rings()
    options = ("--steps", str(steps), "--keep", str(folder / "kept"), "--json", str(report))
    ran = subprocess.run(demo_words(*options, *words), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert demo_rings() <= rings_before
    return DemoRun(folder / "kept", json.loads(report.read_text()), ran.stdout)
