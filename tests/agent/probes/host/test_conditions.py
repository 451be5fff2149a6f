"""Heat, governors and memory in small pieces: found while they last, on a made `/sys`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.agent.probes.host import HostProbe
from tests.agent.fake_proc import Proc
from tests.agent.probes.hand_clock import HandClock


class Host:
    """A node of two CPUs whose heat, governor and memory a test sets."""

    def __init__(self, proc: Proc, sys: Path) -> None:
        self.proc = proc
        self.cpus = [sys / f"devices/system/cpu/cpu{number}" for number in range(2)]
        for cpu in self.cpus:
            (cpu / "thermal_throttle").mkdir(parents=True)
            (cpu / "cpufreq").mkdir()
        self.clock = HandClock()
        self.probe = HostProbe(self.clock, proc.folder, sys=sys)
        self.heat(500, 500)
        self.governed("performance", "acpi-cpufreq")
        self.failed(3)

    def heat(self, *milliseconds: int) -> None:
        for cpu, value in zip(self.cpus, milliseconds, strict=True):
            (cpu / "thermal_throttle/core_throttle_total_time_ms").write_text(f"{value}\n")

    def governed(self, governor: str, driver: str) -> None:
        for cpu in self.cpus:
            (cpu / "cpufreq/scaling_governor").write_text(f"{governor}\n")
            (cpu / "cpufreq/scaling_driver").write_text(f"{driver}\n")

    def failed(self, compactions: int) -> None:
        (self.proc.folder / "vmstat").write_text(f"pgmajfault 1\ncompact_fail {compactions}\n")

    def facts_after(self, seconds: float = 10.0) -> list[tuple[str, str]]:
        self.clock.now += round(seconds * 1e9)
        self.probe.read()
        return [(fact.fact.name, fact.text) for fact in self.probe.facts()]


@pytest.fixture
def host(proc: Proc, tmp_path: Path) -> Host:
    new_host = Host(proc, tmp_path / "sys")
    assert new_host.facts_after() == [], "healthy"
    return new_host


def test_cpus_that_are_slow_for_heat(host: Host) -> None:
    host.heat(900, 2500)
    assert host.facts_after(1.0) == [], "within the window"
    assert host.facts_after(9.0) == [
        ("CPU_HOT", "1 of 2 CPUs ran slower for heat, cpu1 in 20% of 10 s"),
    ]
    assert host.facts_after(5.0) == host.facts_after(1.0) != [], "until the next window"
    assert host.facts_after(9.0) == []
    host.heat(0, 0)
    assert host.facts_after() == [], "counters that went back were reset"


def test_a_governor_that_keeps_the_lowest_clock(host: Host) -> None:
    host.governed("powersave", "acpi-cpufreq")
    assert host.facts_after() == [
        ("CPU_GOVERNOR", "2 of 2 CPUs have the governor powersave: the lowest clock")
    ]
    host.governed("powersave", "intel_pstate")
    assert host.facts_after() == [], "there it follows the load"


def test_memory_that_is_there_but_in_small_pieces(host: Host) -> None:
    host.failed(53)
    assert host.facts_after() == [
        (
            "MEMORY_FRAGMENTED",
            "5 large pages a second were not to be had, with 25% of the memory free",
        )
    ]
    (host.proc.folder / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 20 kB\n")
    host.failed(103)
    assert host.facts_after() == [], "that is lack of memory, which pressure shows"


def test_a_host_that_counts_none_of_it(proc: Proc, tmp_path: Path) -> None:
    clock = HandClock()
    probe = HostProbe(clock, proc.folder, sys=tmp_path)
    for _ in range(3):
        clock.now += 10**11
        probe.read()
        assert probe.facts() == []


def test_a_package_that_is_slow_for_heat(host: Host) -> None:
    for cpu in host.cpus:
        (cpu / "thermal_throttle/package_throttle_total_time_ms").write_text("100\n")
    assert host.facts_after() == []
    for cpu in host.cpus:
        (cpu / "thermal_throttle/package_throttle_total_time_ms").write_text("5100\n")
    assert host.facts_after() == [
        ("CPU_HOT", "2 of 2 CPUs ran slower for heat, the package of cpu0 in 50% of 10 s")
    ]


def test_huge_pages_that_are_not_to_be_had(host: Host) -> None:
    def facts_with(got: int, missed: int, unreserved: int = 0) -> list[tuple[str, str]]:
        (host.proc.folder / "vmstat").write_text(
            f"thp_fault_alloc {got}\nthp_fault_fallback {missed}\n"
            f"htlb_buddy_alloc_fail {unreserved}\n"
        )
        return host.facts_after()

    (host.proc.folder / "buddyinfo").write_text(
        "Node 0, zone      DMA 1 1 1 1 1 1 1 1 1 1 1\nNode 0, zone   Normal 9 9 9 9 9 9 9 9 9 1 0\n"
        "Node 1, zone   Normal 9 9 9 9 9 9 9 9 9 0 0\n"
    )
    assert facts_with(100, 100) == [], "since the start"
    assert facts_with(500, 200) == [], "a fifth of them"
    assert facts_with(501, 290) == [], "nine a second"
    assert facts_with(600, 690) == [
        (
            "HUGE_PAGES_SHORT",
            "400 of 499 huge pages were not to be had; left of 2 MiB and more: "
            "node 0: 4, node 1: 0",
        )
    ]
    assert facts_with(600, 690, 3) == [
        (
            "HUGE_PAGES_SHORT",
            "3 more could not be reserved, 0 reserved ones are free; left of 2 MiB and more: "
            "node 0: 4, node 1: 0",
        )
    ]
    (host.proc.folder / "buddyinfo").write_text("damaged\n")
    assert facts_with(600, 690, 4)[0][1].endswith("0 reserved ones are free")
    assert facts_with(0, 0) == [], "counters that went back were reset"
