"""Signs of work in ranks without progress: their children's CPU time, and bytes moved.

A read costs one file per process on the node, and two per rank and child. So only ranks without
progress for `STILL_SECONDS` are read. Counters start at 0 with a rank's first reading and are
accumulated here, because children end and connections close.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import UNKNOWN_FLOAT

from .connections import carried_bytes, shares_network, sockets_of
from .families import families_of

STILL_SECONDS = 2.0
"""Longer than most phases, and early enough for two readings before a stall is evaluated."""
FAMILY_SECONDS = 4.0
"""Seconds between scans for children and connections, the most expensive part."""
_MOVED = ("rchar", "wchar", "read_bytes", "write_bytes")
_TICKS = os.sysconf("SC_CLK_TCK")


class Signs(NamedTuple):
    """Counters for a rank and its child processes; NaN if they cannot be read.

    `tcp_bytes` is from the connection that carried most since the previous reading. A rank that
    serves a store carries a little on each of many connections, and that is not work.
    """

    children_cpu_seconds: float = UNKNOWN_FLOAT
    file_bytes: float = UNKNOWN_FLOAT
    tcp_bytes: float = UNKNOWN_FLOAT


class _Family:
    """A rank's process, its descendants, their connections, and each one's newest counters."""

    def __init__(self) -> None:
        self.pids: tuple[int, ...] = ()
        self.inodes: frozenset[int] | None = None
        self.signs = Signs(0.0, 0.0, 0.0)
        self.cpu: dict[int, float] | None = None
        self.files: dict[int, float] | None = None
        self.tcp: dict[int, float] | None = None


class WorkReader:
    """Read `Signs` by the ranks' process ids."""

    def __init__(self, proc: Path, files: KernelFiles) -> None:
        self._proc, self._files = proc, files
        self._families: dict[int, _Family] = {}
        self._scanned_ns = 0

    def read(self, pids: frozenset[int], now_ns: int) -> Mapping[int, Signs]:
        """Return each process's signs of work at monotonic `now_ns`; others are forgotten."""
        new = pids - self._families.keys()
        self._families = {pid: self._families.get(pid) or _Family() for pid in pids}
        if pids and (new or now_ns - self._scanned_ns >= FAMILY_SECONDS * NANOSECONDS):
            self._scan()
            self._scanned_ns = now_ns
        carried = _carried() if pids else None
        return {pid: self._signs(pid, family, carried) for pid, family in self._families.items()}

    def _scan(self) -> None:
        descendants = families_of(self._families, self._proc)
        for pid, family in self._families.items():
            family.pids = (pid, *descendants[pid])
            family.inodes = self._inodes(family.pids)

    def _inodes(self, pids: tuple[int, ...]) -> frozenset[int] | None:
        """Return the processes' sockets; None if the first one's are not visible."""
        if not shares_network(pids[0], self._proc):
            return None
        inodes: set[int] = set()
        for pid in pids:
            try:
                inodes |= sockets_of(pid, self._proc)
            except OSError:
                if pid == pids[0]:
                    return None
        return frozenset(inodes)

    def _signs(self, pid: int, family: _Family, carried: Mapping[int, int] | None) -> Signs:
        cpu = {member: self._cpu_seconds(member, is_rank=member == pid) for member in family.pids}
        files = {member: self._file_bytes(member) for member in family.pids}
        tcp = None
        if carried is not None and family.inodes is not None:
            tcp = {inode: float(carried[inode]) for inode in family.inodes & carried.keys()}
        previous = family.signs
        family.signs = Signs(
            previous.children_cpu_seconds + sum(_grown(family.cpu, _readable(cpu))),
            previous.file_bytes + sum(_grown(family.files, _readable(files))),
            previous.tcp_bytes + max(_grown(family.tcp, tcp or {}), default=0.0),
        )
        family.cpu, family.files, family.tcp = _readable(cpu), _readable(files), tcp
        return Signs(
            family.signs.children_cpu_seconds if cpu[pid] is not None else UNKNOWN_FLOAT,
            family.signs.file_bytes if files[pid] is not None else UNKNOWN_FLOAT,
            family.signs.tcp_bytes if tcp is not None else UNKNOWN_FLOAT,
        )

    def _cpu_seconds(self, pid: int, *, is_rank: bool) -> float | None:
        """Return a child's CPU time; for the rank itself, that of its ended children."""
        fields = self._files.word_or(f"{self._proc}/{pid}/stat").rpartition(")")[2].split()
        first = 13 if is_rank else 11
        try:
            return (int(fields[first]) + int(fields[first + 1])) / _TICKS
        except (ValueError, IndexError):
            return None

    def _file_bytes(self, pid: int) -> float | None:
        """Return bytes through system calls, plus those that storage moved for mapped files."""
        text = self._files.word_or(f"{self._proc}/{pid}/io")
        values = dict(line.partition(": ")[::2] for line in text.splitlines())
        try:
            return float(sum(int(values[name]) for name in _MOVED))
        except (ValueError, KeyError):
            return None


def _readable(values: Mapping[int, float | None]) -> dict[int, float]:
    return {key: value for key, value in values.items() if value is not None}


def _grown(previous: Mapping[int, float] | None, now: Mapping[int, float]) -> list[float]:
    """Return each counter's growth; a new one counts fully, except in the first reading."""
    if previous is None:
        return []
    return [max(0.0, value - previous.get(key, 0.0)) for key, value in now.items()]


def _carried() -> Mapping[int, int] | None:
    try:
        return carried_bytes()
    except OSError:  # not supported here
        return None
