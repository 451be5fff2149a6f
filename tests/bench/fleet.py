"""A real minute of large fleets: processors, memory, page data, fault to verdict."""

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

JOB = "fleet"
_END_SECONDS = 480.0
"""Limit for the end of a sender with which the collector does not keep up."""


class Fleet(NamedTuple):
    """A simulated fleet; the measured minute begins after `warm_seconds`."""

    ranks: int
    step_seconds: float
    seconds: float
    warm_seconds: float
    fault: str
    cpu_budget: str

    @property
    def words(self) -> str:
        """The fleet's size in words."""
        return f"{self.ranks:,} ranks, {self.step_seconds:g} s steps"


FLEETS = (
    # The minute begins after the baseline and contains the fault.
    Fleet(16_384, 1.0, 100.0, 35.0, "slow-compute:rank=5000,step=55", "60%"),
    Fleet(100_000, 5.0, 240.0, 130.0, "slow-compute:rank=50000,step=32", "sustained"),
)


class Minute(NamedTuple):
    """One minute's measurements from outside; `verdict_seconds` is None without a verdict."""

    cpu_share: float
    resident_bytes: int
    page_seconds: float
    verdict_seconds: float | None
    lag: str


def measure() -> Iterator[Result]:
    """Measure each fleet."""
    for fleet in FLEETS:
        yield from _rows(fleet)


def _rows(fleet: Fleet) -> Iterator[Result]:
    """Yield the rows of a fleet: share of all cores without the sender, memory above an idle
    collector."""
    with tempfile.TemporaryDirectory() as name:
        idle, minute = _minute(Path(name), fleet)
    title = fleet.words
    yield Result(
        f"{title}: processors in a real minute", f"{minute.cpu_share:.0%}", fleet.cpu_budget,
        f"of {os.cpu_count()} cores; the sender {minute.lag}",
    )  # fmt: skip
    verdict = minute.verdict_seconds
    shown = "none" if verdict is None else f"{verdict:.1f} s"
    yield Result(f"{title}: fault to incident", shown, "p90 10 s", fleet.fault)
    yield Result(f"{title}: job page data", f"{minute.page_seconds:.2f} s", "1 s", "median of five")
    rank_bytes = (minute.resident_bytes - idle) / fleet.ranks
    yield Result(
        f"{title}: resident memory", f"{rank_bytes / 1024:.1f} KiB a rank", "to state",
        f"{minute.resident_bytes / 2**20:,.0f} MiB in all, {idle / 2**20:,.0f} without a job",
    )  # fmt: skip


def _minute(folder: Path, fleet: Fleet) -> tuple[int, Minute]:
    collector = Collector(folder, "collector", str(folder / "store.db"))
    sender: subprocess.Popen[bytes] | None = None
    try:
        collector.start()
        idle = _resident_bytes(collector.pid)
        words = f"--ranks {fleet.ranks} --step-seconds {fleet.step_seconds} --fault {fleet.fault} "
        words += f"--seconds {fleet.seconds} --job {JOB}"
        report = folder / "report.json"
        sender = spawn(
            folder / "fleet.log", *CLI, "simulate", "--collector", collector.url,
            "--json", str(report), *words.split(),
        )  # fmt: skip
        time.sleep(fleet.warm_seconds)
        used_before, began = processor_seconds(collector.pid), time.monotonic()
        pages = []
        for _ in range(5):
            time.sleep(12.0)
            pages.append(_page_seconds(collector.url))
        spent = processor_seconds(collector.pid) - used_before
        share = spent / (time.monotonic() - began) / (os.cpu_count() or 1)
        resident = _resident_bytes(collector.pid)
        sender.wait(_END_SECONDS)
        summary = json.loads(report.read_text())
        return idle, Minute(
            share, resident, sorted(pages)[2], _verdict_seconds(summary), _lag(summary)
        )
    finally:
        if sender is not None:
            end(sender, signal.SIGKILL)
        collector.end(signal.SIGKILL)


def _page_seconds(url: str) -> float:
    began = time.monotonic()
    httpx.get(f"{url}/v1/jobs/{JOB}", timeout=60.0).raise_for_status()
    httpx.get(f"{url}/v1/jobs/{JOB}/heatmap", timeout=60.0).raise_for_status()
    return time.monotonic() - began


def _verdict_seconds(report: dict[str, object]) -> float | None:
    incidents = report["incidents"]
    assert isinstance(incidents, list)
    seconds = (incident["opened_after_fault_seconds"] for incident in incidents)
    return min((delay for delay in seconds if delay is not None), default=None)


def _lag(report: dict[str, object]) -> str:
    late_seconds, failed = report["late_seconds"], report["failed_requests"]
    return f"was up to {late_seconds:.1f} s late, {failed} of its requests failed"


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
