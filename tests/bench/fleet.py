"""A real minute of 16,384 ranks at a step a second: processors, memory, page, verdict, bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.soak.processes import CLI, Collector, end, processor_seconds, spawn

from .result import Result

RANKS, SECONDS, WARM_SECONDS = 16_384, 100, 35
"""The minute that counts begins behind the baseline; the fault falls into it."""
FAULT = "slow-compute:rank=5000,step=55"
JOB = "fleet"


class Minute(NamedTuple):
    """What was seen from outside in a minute; unknown verdict seconds are None."""

    cpu_share: float
    resident_bytes: int
    page_seconds: float
    verdict_seconds: float | None
    behind: str


def measure() -> Iterator[Result]:
    """Of all cores, the sender not counted; memory behind a started collector's own."""
    with tempfile.TemporaryDirectory() as name:
        idle, minute = _minute(Path(name))
    what = f"{RANKS:,} ranks, 1 s steps"
    yield Result(
        f"{what}: processors in a real minute", f"{minute.cpu_share:.0%}", "60%",
        f"of {os.cpu_count()} cores; the sender {minute.behind}",
    )  # fmt: skip
    verdict = minute.verdict_seconds
    shown = "none" if verdict is None else f"{verdict:.1f} s"
    yield Result(f"{what}: fault to incident", shown, "p90 10 s", FAULT)
    yield Result(f"{what}: job page data", f"{minute.page_seconds:.2f} s", "1 s", "median of five")
    each = (minute.resident_bytes - idle) / RANKS
    yield Result(
        f"{what}: resident memory", f"{each / 1024:.1f} KiB a rank", "to state",
        f"{minute.resident_bytes / 2**20:,.0f} MiB in all, {idle / 2**20:,.0f} without a job",
    )  # fmt: skip


def _minute(folder: Path) -> tuple[int, Minute]:
    collector = Collector(folder, "collector", str(folder / "store.db"))
    fleet: subprocess.Popen[bytes] | None = None
    try:
        collector.start()
        idle = _resident_bytes(collector.pid)
        words = f"--ranks {RANKS} --seconds {SECONDS} --job {JOB} --fault {FAULT}".split()
        report = folder / "report.json"
        fleet = spawn(
            folder / "fleet.log", *CLI, "simulate", "--collector", collector.url,
            "--json", str(report), *words,
        )  # fmt: skip
        time.sleep(WARM_SECONDS)
        before, began = processor_seconds(collector.pid), time.monotonic()
        pages = []
        for _ in range(5):
            time.sleep(12.0)
            pages.append(_page_seconds(collector.url))
        spent = processor_seconds(collector.pid) - before
        share = spent / (time.monotonic() - began) / (os.cpu_count() or 1)
        resident = _resident_bytes(collector.pid)
        fleet.wait(300.0)
        said = json.loads(report.read_text())
        return idle, Minute(
            share, resident, sorted(pages)[2], _verdict_seconds(said), _behind(said)
        )
    finally:
        if fleet is not None:
            end(fleet, signal.SIGKILL)
        collector.end(signal.SIGKILL)


def _page_seconds(url: str) -> float:
    began = time.monotonic()
    httpx.get(f"{url}/v1/jobs/{JOB}", timeout=60.0).raise_for_status()
    httpx.get(f"{url}/v1/jobs/{JOB}/heatmap", timeout=60.0).raise_for_status()
    return time.monotonic() - began


def _verdict_seconds(report: dict[str, object]) -> float | None:
    found = report["incidents"]
    assert isinstance(found, list)
    return min((each["opened_after_fault_seconds"] for each in found), default=None)


def _behind(report: dict[str, object]) -> str:
    late, failed = report["late_seconds"], report["failed_requests"]
    return f"was up to {late:.1f} s late, {failed} of its requests failed"


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
