"""Control groups by process, and their counters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.kernel_files import KernelFiles

MAX_GROUPS = 64
_V1 = {"cpu": "cpu", "cpu,cpuacct": "cpu", "cpuacct,cpu": "cpu", "memory": "memory"}


Paths = tuple[tuple[str, str], ...]
"""(controller, path) for each hierarchy."""


class Group(NamedTuple):
    """A set of control groups: its processes, and the path below the root by controller.

    Version 2 has one path for all controllers, with an empty name.
    """

    pids: tuple[int, ...]
    paths: Paths

    def name(self, controller: str) -> str:
        """Return a controller's path; a long path is cut to its end, which distinguishes pods."""
        paths = dict(self.paths)
        return paths.get(controller, paths.get("", "/"))[-40:]


def groups_of(files: KernelFiles, pids: Iterable[int], proc: Path) -> dict[Paths, Group]:
    """Return the processes' control groups by paths, without ended processes.

    `/proc/PID/cgroup` has one line per hierarchy: `0::/kubepods/pod1/app` for version 2,
    `4:memory:/job` for version 1 (cgroups(7)).
    """
    members: dict[Paths, list[int]] = {}
    for pid in sorted(pids):
        try:
            text = files.text(f"{proc}/{pid}/cgroup")
        except OSError:
            continue
        paths = []
        for line in text.splitlines():
            fields = line.split(":", 2)
            if len(fields) != 3 or ".." in fields[2].split("/"):
                continue
            if fields[0] == "0":
                paths.append(("", fields[2]))
            elif fields[1] in _V1:
                paths.append((_V1[fields[1]], fields[2]))
        members.setdefault(tuple(paths), []).append(pid)
    bounded = list(members.items())[:MAX_GROUPS]
    return {where: Group(tuple(inside), where) for where, inside in bounded}


def read_counters(group: Group, root: Path) -> dict[str, int]:
    """Return a group's counters for throttling and memory limits; missing ones are left out."""
    counters: dict[str, int] = {}
    for controller, path in group.paths:
        place = path.lstrip("/")
        if controller:
            folders = [root / controller / place]
        else:
            folders = [root / place, root / "unified" / place]
        for folder in folders:
            counters |= _table(folder / "cpu.stat") | _table(folder / "memory.events")
            counters |= _failcnt(folder / "memory.failcnt")
    return counters


def _table(file: Path) -> dict[str, int]:
    counters = {}
    for line in _lines(file):
        name, _, value = line.partition(" ")
        if value.isdecimal():
            counters[name] = int(value)
    return counters


def _failcnt(file: Path) -> dict[str, int]:
    values = [line for line in _lines(file) if line.isdecimal()]
    return {"failcnt": int(values[0])} if values else {}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
