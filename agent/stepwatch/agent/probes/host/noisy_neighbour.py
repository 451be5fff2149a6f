"""The noisy neighbour: the process that uses most CPU time on the node and is not a rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.kernel_files import read_once
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import UNKNOWN_FLOAT

MAX_PROCESSES = 20_000
EVERY_SECONDS = 4.0
"""Seconds between two scans: a scan reads one file per process, about 20 microseconds each."""
_TICKS = os.sysconf("SC_CLK_TCK")


class BusyProcess(NamedTuple):
    """A process and its CPU time in CPUs; pid 0 if unknown."""

    name: str = ""
    pid: int = 0
    cpu_ratio: float = UNKNOWN_FLOAT


class _Process(NamedTuple):
    name: str
    parent: int
    ticks: int
    started: int


class NoisyNeighbour:
    """Compare two `/proc` scans; `ranks` returns the ranks' process ids.

    Children of ranks (loader workers) are excluded, too.
    """

    def __init__(self, clock: Clock, ranks: Callable[[], Set[int]], proc: Path) -> None:
        self._clock = clock
        self._ranks = ranks
        self._proc = proc
        self._processes: dict[int, _Process] = {}
        self._at_ns = 0
        self._busiest = BusyProcess()

    def busiest(self) -> BusyProcess:
        """Return the busiest process between the newest two scans that is not a rank."""
        now = self._clock.monotonic_ns()
        seconds = (now - self._at_ns) / NANOSECONDS
        if self._at_ns and seconds < EVERY_SECONDS:
            return self._busiest
        processes, previous = dict(self._scan()), self._processes
        self._processes, self._at_ns = processes, now
        rank_pids = self._ranks()
        used = [
            (process.ticks - previous[pid].ticks, pid)
            for pid, process in processes.items()
            if pid in previous
            and previous[pid].started == process.started
            and pid not in rank_pids
            and process.parent not in rank_pids
        ]
        most, pid = max(used, default=(0, 0))
        ratio = most / _TICKS / seconds if seconds > 0 else UNKNOWN_FLOAT
        self._busiest = BusyProcess(processes[pid].name, pid, ratio) if most > 0 else BusyProcess()
        return self._busiest

    def _scan(self) -> Iterator[tuple[int, _Process]]:
        folders = (entry for entry in os.scandir(self._proc) if entry.name.isdigit())
        for _, entry in zip(range(MAX_PROCESSES), folders, strict=False):
            try:
                text = read_once(f"{entry.path}/stat")
                head, _, tail = text.rpartition(")")
                fields = tail.split(maxsplit=20)
                ticks = int(fields[11]) + int(fields[12])
                process = _Process(head.partition("(")[2], int(fields[1]), ticks, int(fields[19]))
            except (OSError, ValueError, IndexError):  # ended meanwhile
                continue
            yield int(entry.name), process
