"""The noisy neighbour is the busiest process that is neither a rank nor a rank's child."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.agent.probes.host import HostProbe
from stepwatch.agent.probes.host.noisy_neighbour import EVERY_SECONDS, NoisyNeighbour
from stepwatch.signals.clock import NANOSECONDS, SystemClock
from tests.waiting import until


class LateClock(SystemClock):
    """The real clock, moved on by hand."""

    ahead = 0

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + self.ahead


class StandingClock(SystemClock):
    """A clock that only the test moves on."""

    ahead = NANOSECONDS

    def monotonic_ns(self) -> int:
        return self.ahead


@pytest.fixture
def busy() -> Iterator[int]:
    """Process id of a neighbour that computes."""
    words = [sys.executable, "-c", "while True: pass"]
    process = subprocess.Popen(words)
    yield process.pid
    process.kill()
    process.wait(10)


def has_used(pid: int, seconds: float) -> bool:
    """Wait until `pid` has used as much CPU time as this."""

    def enough() -> bool:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) >= seconds * os.sysconf("SC_CLK_TCK")

    return until(f"{pid} to use {seconds} s of CPU time", enough)


def test_a_busy_process_is_a_neighbour_unless_it_is_a_rank(busy: int) -> None:
    clock = LateClock()
    ranks: set[int] = set()
    probe = NoisyNeighbour(clock, lambda: ranks, Path("/proc"))
    assert probe.busiest().pid == 0 and math.isnan(probe.busiest().cpu_ratio)
    ticks_before = probe._processes[busy].ticks
    assert has_used(busy, ticks_before / os.sysconf("SC_CLK_TCK") + 0.3)
    clock.ahead = round(EVERY_SECONDS * 1e9)
    ranks |= set(probe._processes) - {busy, os.getpid()}
    busiest = probe.busiest()
    assert busiest.pid == busy and busiest.cpu_ratio > 0 and busiest.name.startswith("python")
    ranks |= {busy}
    clock.ahead *= 2
    assert probe.busiest().pid != busy


def test_neighbours_are_found_in_any_proc(tmp_path: Path) -> None:
    def process(pid: int, name: str, parent: int, ticks: int, started: int = 5) -> None:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        fields = ["R", str(parent), *["0"] * 9, str(ticks), "0", *["0"] * 6, str(started)]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")

    clock = StandingClock()
    probe = NoisyNeighbour(clock, lambda: {10}, tmp_path)
    for pid, name, parent in ((10, "rank", 1), (11, "loader", 10), (12, "my (job)", 1)):
        process(pid, name, parent, 100)
    process(13, "reused", 1, 100)
    (tmp_path / "14").mkdir()
    (tmp_path / "14" / "stat").write_text("garbage")
    probe.busiest()
    clock.ahead += round(EVERY_SECONDS * 1e9)
    process(10, "rank", 1, 900)
    process(11, "loader", 10, 900)
    process(12, "my (job)", 1, 300)
    process(13, "reused", 1, 9000, started=6)
    busiest = probe.busiest()
    assert (busiest.name, busiest.pid) == ("my (job)", 12)
    assert busiest.cpu_ratio == pytest.approx(200 / os.sysconf("SC_CLK_TCK") / EVERY_SECONDS, 0.1)
    clock.ahead += round(EVERY_SECONDS * 1e9)
    assert probe.busiest().pid == 0, "nobody used anything"
    (tmp_path / "stat").write_text("cpu  1 0 0 1\n")
    for name in ("meminfo", "vmstat", "loadavg"):
        (tmp_path / name).write_text("")
    row = HostProbe(SystemClock(), tmp_path).read()[0]
    assert math.isnan(row["neighbour_cpu_ratio"]) and row["neighbour_pid"] == 0
