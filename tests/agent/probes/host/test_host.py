"""The host probe reports what `/proc` says, and unknown where it says nothing that can be read."""

from __future__ import annotations

import math
import os

import pytest

from stepwatch.agent.probes.host import HostProbe, parse_pressure, parse_table
from stepwatch.signals.clock import SystemClock
from tests.agent.fake_proc import Proc


class TurnedClock(SystemClock):
    """A clock whose hands the test turns."""

    def __init__(self) -> None:
        self.seconds = 100

    def monotonic_ns(self) -> int:
        return self.seconds * 10**9


def test_ratios_are_those_of_the_time_between_two_reads(proc: Proc) -> None:
    clock = TurnedClock()
    probe = HostProbe(clock, proc.folder)
    first = probe.read()[0]
    assert math.isnan(first["cpu_busy_ratio"])
    assert math.isnan(first["major_faults_per_second"])
    proc.set(busy=150, idle=920, steal=30, faults=40)
    clock.seconds += 10
    row = probe.read()[0]
    assert row["cpu_busy_ratio"] == pytest.approx(0.8)
    assert row["cpu_steal_ratio"] == pytest.approx(0.3)
    assert row["major_faults_per_second"] == pytest.approx(3.0)
    assert row["cpu_pressure_ratio"] == pytest.approx(0.125)
    assert row["io_pressure_ratio"] == pytest.approx(1.0)
    assert row["memory_available_bytes"] == 250 * 1024
    assert row["load_per_cpu"] == pytest.approx(2.0 / (os.cpu_count() or 1))


def test_counters_that_go_back_are_unknown(proc: Proc) -> None:
    probe = HostProbe(SystemClock(), proc.folder)
    probe.read()
    proc.set(busy=1, idle=1, steal=0, faults=10)
    assert math.isnan(probe.read()[0]["cpu_busy_ratio"])


def test_a_kernel_without_pressure_says_unknown_not_zero(proc: Proc) -> None:
    for name in ("cpu", "memory", "io"):
        (proc.folder / "pressure" / name).unlink()
    (proc.folder / "meminfo").write_text("MemFree: 7 kB\n")
    row = HostProbe(SystemClock(), proc.folder).read()[0]
    assert math.isnan(row["cpu_pressure_ratio"])
    assert row["memory_total_bytes"] == 0
    assert math.isnan(parse_pressure("")) and math.isnan(parse_pressure("some total=5"))
    assert parse_table("a: b\n\nx\nMemTotal: -5 kB", ("a", "x", "MemTotal")) == {}
