"""The `host` probe: the node's CPU, steal, pressure, memory and page faults, from `/proc`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.probe import Gauge, Probe, ProbeContext
from stepwatch.signals import names
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import UNKNOWN_FLOAT, Kind, NodeFact, Values, unknown_values

from .conditions import HostConditions
from .huge_pages import COUNTERS
from .noisy_neighbour import NoisyNeighbour
from .rank_states import RankStates

if TYPE_CHECKING:
    from stepwatch.signals.wire import Rows

_MEMORY = ("MemTotal", "MemAvailable", "HugePages_Free")
_COUNTERS = ("pgmajfault", "compact_fail", *COUNTERS)
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"})
"""Clock sources that take a microsecond or more to read; tsc and hypervisor clocks take less."""


class CpuTimes(NamedTuple):
    """Cumulative clock ticks for all CPUs (proc(5), `/proc/stat`)."""

    busy: int
    steal: int
    total: int


def parse_cpu(stat: str) -> CpuTimes:
    """Parse the first line in `/proc/stat`; user time already includes guest time.

    Raises:
        ValueError: the line has no CPU times.
    """
    name, *words = stat.split("\n", 1)[0].split() or [""]
    if name != "cpu" or len(words) < 4:
        raise ValueError("the first line of /proc/stat does not hold CPU times")
    fields = [int(value) for value in words[:8]]
    user, nice, system, idle, iowait, irq, softirq, steal = fields + [0] * (8 - len(fields))
    busy = user + nice + system + irq + softirq + steal
    return CpuTimes(busy, steal, busy + idle + iowait)


def parse_pressure(text: str) -> float:
    """Return the share, 0 to 1, of the last 10 s in which a task stalled (`some avg10`)."""
    for word in text.split("\n", 1)[0].split():
        if word.startswith("avg10="):
            return float(word.removeprefix("avg10=")) / 100.0
    return UNKNOWN_FLOAT


def parse_load(text: str) -> float:
    """Return the one-minute load average, the first word in `/proc/loadavg`; NaN if missing."""
    words = text.split()
    return float(words[0]) if words else UNKNOWN_FLOAT


def parse_table(text: str, names: Collection[str]) -> dict[str, int]:
    """Return the named `name value` lines in `/proc/meminfo` (kB) or `/proc/vmstat`."""
    table: dict[str, int] = {}
    for name in names:
        match = re.search(rf"^{re.escape(name)}:?\s+(\d{{1,20}})\b", text, re.MULTILINE)
        if match is not None:
            table[name] = int(match[1])
    return table


class HostProbe(Probe):
    """Read the node's `/proc` at `proc`; `ranks` returns the ranks' process ids."""

    name = "host"
    kind = Kind.HOST
    every_seconds = 2.0  # the kernel's own pressure averages are as old

    def __init__(
        self,
        clock: Clock,
        proc: Path = Path("/proc"),
        ranks: Callable[[], Set[int]] = frozenset,
        sys: Path = Path("/sys"),
    ) -> None:
        self._clock = clock
        self._clock_source = f"{sys}/devices/system/clocksource/clocksource0/current_clocksource"
        self._files = KernelFiles()
        self._noisy = NoisyNeighbour(clock, ranks, proc)
        self._conditions = HostConditions(sys, proc, self._files)
        self._rank_states = RankStates(ranks, proc)
        self._slow: list[Sighting] = []
        self._proc = proc
        self._cpu: CpuTimes | None = None
        self._faults: tuple[int, int] | None = None

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        return cls(context.clock, context.proc, context.rank_processes, context.sys)

    def supported(self) -> bool:
        """Return whether `/proc/stat` exists."""
        return (self._proc / "stat").exists()

    def read(self) -> list[Values]:
        """Return one record; ratios cover the time since the previous read, and the first are NaN.

        Memory bytes are 0 if `/proc/meminfo` does not report them.

        Raises:
            OSError, ValueError: `/proc` cannot be read or has an unexpected format.
        """
        now = self._clock.monotonic_ns()
        row = unknown_values(Kind.HOST, time_ns=now)
        memory = parse_table(self._text("meminfo"), _MEMORY)
        counters = parse_table(self._text("vmstat"), _COUNTERS)
        self._slow = [
            *self._conditions.find(memory, counters, now),
            *self._rank_states.find(now),
        ]
        noisy = self._noisy.busiest()
        row["neighbour"] = noisy.name.encode("utf-8", "replace")
        row["neighbour_pid"], row["neighbour_cpu_ratio"] = noisy.pid, noisy.cpu_ratio
        row["cpu_busy_ratio"], row["cpu_steal_ratio"] = self._cpu_ratios()
        for resource in ("cpu", "memory", "io"):
            row[f"{resource}_pressure_ratio"] = self._pressure(resource)
        row["load_per_cpu"] = parse_load(self._text("loadavg")) / (os.cpu_count() or 1)
        if "MemAvailable" in memory and "MemTotal" in memory:
            row["memory_available_bytes"] = memory["MemAvailable"] * 1024
            row["memory_total_bytes"] = memory["MemTotal"] * 1024
        row["major_faults_per_second"] = self._fault_rate(now, counters.get("pgmajfault"))
        return [row]

    def facts(self) -> list[Sighting]:
        """Return facts about heat, governors, memory fragmentation, blocked ranks and the clock.

        A slow clock source makes every timestamp on the node expensive.
        """
        source = self._files.word_or(self._clock_source)
        if source not in SLOW_CLOCKS:
            return self._slow
        slow = Sighting(NodeFact.CLOCK_SOURCE, source, "the kernel reads the time from it")
        return [slow, *self._slow]

    def gauges(self, rows: Rows) -> Iterator[Gauge]:
        """Yield the node's pressure, CPU and memory."""
        row = rows[-1]
        for resource in ("cpu", "memory", "io"):
            pressure = float(row[f"{resource}_pressure_ratio"])
            yield Gauge(names.NODE_PRESSURE, (resource,), pressure)
        yield Gauge(names.NODE_CPU_BUSY, (), float(row["cpu_busy_ratio"]))
        yield Gauge(names.NODE_CPU_STEAL, (), float(row["cpu_steal_ratio"]))
        is_reported = row["memory_total_bytes"] > 0
        memory = float(row["memory_available_bytes"]) if is_reported else UNKNOWN_FLOAT
        yield Gauge(names.NODE_MEMORY_AVAILABLE, (), memory)
        total = float(row["memory_total_bytes"]) if is_reported else UNKNOWN_FLOAT
        yield Gauge(names.NODE_MEMORY_TOTAL, (), total)
        yield Gauge(names.NODE_LOAD, (), float(row["load_per_cpu"]))
        yield Gauge(names.NODE_MAJOR_FAULTS, (), float(row["major_faults_per_second"]))

    def _text(self, name: str) -> str:
        return self._files.text(f"{self._proc}/{name}")

    def _cpu_ratios(self) -> tuple[float, float]:
        previous, self._cpu = self._cpu, parse_cpu(self._text("stat"))
        if previous is None or self._cpu.total <= previous.total:
            return UNKNOWN_FLOAT, UNKNOWN_FLOAT
        total = self._cpu.total - previous.total
        return (self._cpu.busy - previous.busy) / total, (self._cpu.steal - previous.steal) / total

    def _pressure(self, resource: str) -> float:
        try:
            return parse_pressure(self._text(f"pressure/{resource}"))
        except OSError:  # kernel built or booted without PSI
            return UNKNOWN_FLOAT

    def _fault_rate(self, now: int, faults: int | None) -> float:
        if faults is None:
            return UNKNOWN_FLOAT
        previous, self._faults = self._faults, (now, faults)
        if previous is None or now <= previous[0]:
            return UNKNOWN_FLOAT
        return (faults - previous[1]) * NANOSECONDS / (now - previous[0])
