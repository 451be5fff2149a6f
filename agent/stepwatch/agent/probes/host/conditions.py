"""Conditions that slow a host without breaking it: heat, governors, memory fragmentation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact

from .huge_pages import HugePages
from .limits import LIMITS

MAX_CPUS = 4096
_CPU = re.compile(r"cpu\d{1,6}")
SELF_GOVERNED = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})
"""Drivers whose `powersave` follows the load; in other drivers it is the lowest clock."""


class HostConditions:
    """Compare readings at least `window_seconds` apart; `sys` and `proc` are the paths to read."""

    def __init__(
        self, sys: Path, proc: Path = Path("/proc"), files: KernelFiles | None = None
    ) -> None:
        self._huge_pages = HugePages(proc)
        self._cpus = sys / "devices/system/cpu"
        self._files = files or KernelFiles()
        self._at_ns = 0
        self._throttled_ms: dict[str, int] = {}
        self._failed: int | None = None
        self._sightings: list[Sighting] = []

    def find(
        self, memory: Mapping[str, int], counters: Mapping[str, int], now_ns: int
    ) -> list[Sighting]:
        """Return conditions that slow the host.

        `memory` and `counters` are `/proc/meminfo` and `/proc/vmstat`. A condition without a kernel
        counter is not found: virtual CPUs do not report heat.
        """
        seconds = (now_ns - self._at_ns) / NANOSECONDS
        if self._at_ns and seconds < LIMITS.window_seconds:
            return self._sightings
        cpus = self._present()
        self._sightings = [
            *self._hot(cpus, seconds),
            *_governed(self._files, cpus),
            *self._in_pieces(memory, counters.get("compact_fail"), seconds),
            *self._huge_pages.find(memory, counters, seconds),
        ]
        self._at_ns = now_ns
        return self._sightings

    def _present(self) -> list[str]:
        """Return the CPU folders, sorted by name."""
        try:
            names = [name for name in os.listdir(self._cpus) if _CPU.fullmatch(name)]
        except OSError:
            return []
        return [f"{self._cpus}/{name}" for name in sorted(names)[:MAX_CPUS]]

    def _hot(self, cpus: list[str], seconds: float) -> Iterator[Sighting]:
        previous, self._throttled_ms = self._throttled_ms, dict(_throttled(self._files, cpus))
        shares = {
            name: (milliseconds - previous[name]) / 1000 / seconds
            for name, milliseconds in self._throttled_ms.items()
            if name in previous
        }
        hot = [name for name, share in shares.items() if share >= LIMITS.least_throttled_ratio]
        if hot:
            worst = max(hot, key=shares.__getitem__)
            many = len({name.rpartition(" ")[2] for name in hot})
            text = f"{many} of {len(cpus)} CPUs ran slower for heat, {worst} in "
            text += f"{min(1.0, shares[worst]):.0%} of {seconds:.0f} s"
            yield Sighting(NodeFact.CPU_HOT, "cpu", text)

    def _in_pieces(
        self, memory: Mapping[str, int], failed: int | None, seconds: float
    ) -> Iterator[Sighting]:
        previous, self._failed = self._failed, failed
        if previous is None or failed is None:
            return
        rate = (failed - previous) / seconds
        available = memory.get("MemAvailable", 0) / max(1, memory.get("MemTotal", 0))
        enough = available >= LIMITS.least_available_ratio
        if rate >= LIMITS.least_failed_compactions and enough:
            text = f"{rate:.0f} large pages a second were not to be had, with {available:.0%} "
            text += "of the memory free"
            yield Sighting(NodeFact.MEMORY_FRAGMENTED, "memory", text)


def _throttled(files: KernelFiles, cpus: list[str]) -> Iterator[tuple[str, int]]:
    """Yield milliseconds of thermal throttling since boot by CPU or package, if counted."""
    for cpu in cpus:
        name = os.path.basename(cpu)
        for part in ("core", "package"):
            spent = files.number(f"{cpu}/thermal_throttle/{part}_throttle_total_time_ms")
            if spent is not None:
                yield name if part == "core" else f"the package of {name}", spent


def _governed(files: KernelFiles, cpus: list[str]) -> Iterator[Sighting]:
    """Yield CPUs that are fixed at their lowest clock at any load."""
    slow = [
        cpu
        for cpu in cpus
        if files.word_or(f"{cpu}/cpufreq/scaling_governor") == "powersave"
        and files.word_or(f"{cpu}/cpufreq/scaling_driver") not in SELF_GOVERNED
    ]
    if slow:
        text = f"{len(slow)} of {len(cpus)} CPUs have the governor powersave: the lowest clock"
        yield Sighting(NodeFact.CPU_GOVERNOR, "cpu", text)
