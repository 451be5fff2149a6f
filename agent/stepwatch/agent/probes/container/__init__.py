"""The `container` probe: control group limits that slow ranks down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple, Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import Kind, NodeFact, Values

from .groups import Group, Paths, groups_of, read_counters

THROTTLED_RATIO = 0.1
"""Share of periods with exhausted CPU time: one tenth can lengthen each step by as much."""
LEAST_PERIODS = 20
"""Minimum sample: a period is a tenth of a second by default (cpu.max)."""
WINDOW_SECONDS = 4.0


class _Reading(NamedTuple):
    at_ns: int
    counters: Mapping[str, int]


class ContainerProbe(Probe):
    """Read the control groups (versions 1 and 2) with this node's ranks."""

    name = "container"
    kind = Kind.NODE_FACT
    expendable = False
    every_seconds = WINDOW_SECONDS + 1.0  # a read within the window reads nothing

    def __init__(
        self,
        clock: Clock,
        ranks: Callable[[], Set[int]],
        proc: Path = Path("/proc"),
        root: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._clock = clock
        self._ranks = ranks
        self._proc = proc
        self._root = root
        self._files = KernelFiles()
        self._readings: dict[Paths, _Reading] = {}
        self._sightings: dict[Paths, list[Sighting]] = {}

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        root = context.sys / "fs" / "cgroup"
        return cls(context.clock, context.rank_processes, context.proc, root)

    def supported(self) -> bool:
        """Return whether control groups are mounted."""
        return self._root.is_dir()

    def read(self) -> list[Values]:
        """Return no rows: the results are facts."""
        now = self._clock.monotonic_ns()
        groups = groups_of(self._files, self._ranks(), self._proc)
        for stale_paths in self._readings.keys() - groups.keys():
            del self._readings[stale_paths]
            self._sightings.pop(stale_paths, None)
        for paths, group in groups.items():
            previous = self._readings.get(paths)
            if previous is not None and now - previous.at_ns < WINDOW_SECONDS * NANOSECONDS:
                continue
            counters = read_counters(group, self._root)
            self._readings[paths] = _Reading(now, counters)
            grown = _grown(previous.counters, counters) if previous is not None else {}
            self._sightings[paths] = list(_sightings(group, grown))
        return []

    def facts(self) -> list[Sighting]:
        """Return the newest read's facts."""
        return [sighting for sightings in self._sightings.values() for sighting in sightings]


def _grown(previous: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return each counter's growth; a counter that went back (a recreated group) grew by 0."""
    return {name: max(0, value - previous.get(name, value)) for name, value in now.items()}


def _sightings(group: Group, grown: Mapping[str, int]) -> Iterator[Sighting]:
    """Yield a group's faults; `pid` is set if the group has one rank."""
    pid = group.pids[0] if len(group.pids) == 1 else 0
    periods, throttled = grown.get("nr_periods", 0), grown.get("nr_throttled", 0)
    if periods >= LEAST_PERIODS and throttled >= THROTTLED_RATIO * periods:
        text = f"it used up its CPU time in {throttled} of {periods} periods"
        yield Sighting(NodeFact.CONTAINER_THROTTLED, group.name("cpu"), text, pid=pid)
    full = {name: grown[name] for name in ("high", "max", "oom", "failcnt") if grown.get(name)}
    if full:
        counts = ", ".join(f"{name} {count} times" for name, count in full.items())
        text = f"its memory reached its limit: {counts}"
        yield Sighting(NodeFact.CONTAINER_MEMORY, group.name("memory"), text, pid=pid)
