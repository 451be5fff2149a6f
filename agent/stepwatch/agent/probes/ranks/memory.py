"""Memory that belongs to a rank beside its own: of its children, and what its group has left.

A forked child maps the pages of its parent, which count in both: of each child counts what it grew
by since it was first seen. Pages that it only copied count with the parent's, so that growth is not
seen. A walk costs a file for each process of the node, so it happens every `EVERY_SECONDS`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.rings.processes import own_bytes
from stepwatch.signals.clock import NANOSECONDS

from .families import families_of

EVERY_SECONDS = 10.0
"""Growth that fills a node within a minute or two is seen in time."""


class FamilyMemory(NamedTuple):
    """Bytes that the children of a rank grew by; bytes until the limit of its control group, and a
    number of that group: 0 where it has none."""

    children_bytes: int = 0
    group_room_bytes: int = 0
    memory_group: int = 0


class FamilyMemoryReader:
    """Reads `FamilyMemory` of ranks by the ids of their processes; `root` holds control groups."""

    def __init__(self, proc: Path, root: Path, files: KernelFiles) -> None:
        self._proc, self._root, self._files = proc, root, files
        self._first: dict[int, int] = {}
        self._newest: Mapping[int, FamilyMemory] = {}
        self._read_ns = 0

    def read(self, pids: Iterable[int], now_ns: int) -> Mapping[int, FamilyMemory]:
        """The newest reading of each process of `pids`, at monotonic `now_ns`."""
        if not self._read_ns or now_ns - self._read_ns >= EVERY_SECONDS * NANOSECONDS:
            self._read_ns = now_ns
            families = families_of(pids, self._proc)
            first, self._first = self._first, {}
            self._newest = {
                pid: FamilyMemory(self._grown(children, first), *self._group(pid))
                for pid, children in families.items()
            }
        return self._newest

    def _grown(self, children: Iterable[int], first: Mapping[int, int]) -> int:
        grown = 0
        for pid in children:
            memory_bytes = own_bytes(self._files, f"{self._proc}/{pid}")
            self._first[pid] = first.get(pid, memory_bytes)
            grown += max(0, memory_bytes - self._first[pid])
        return grown

    def _group(self, pid: int) -> tuple[int, int]:
        """Room of the group with the least of those that the process is in, and its number."""
        try:
            lines = self._files.text(f"{self._proc}/{pid}/cgroup").splitlines()
        except OSError:
            return 0, 0
        rooms = []
        for line in lines:
            number, controllers, path = (*line.split(":", 2), "", "")[:3]
            if ".." in path.split("/") or (number != "0" and controllers != "memory"):
                continue
            place = self._root / controllers / path.lstrip("/")
            while place != self._root and self._root in place.parents:
                room = self._room(place)
                if room is not None:
                    rooms.append((max(1, room), zlib.crc32(str(place).encode()) or 1))
                place = place.parent
        return min(rooms, default=(0, 0))

    def _room(self, folder: Path) -> int | None:
        """Bytes until the limit, not counting files that the kernel can drop; None without one."""
        for limit, fields in (
            ("memory.max", ("anon", "shmem")),
            ("memory.limit_in_bytes", ("total_rss", "total_shmem")),
        ):
            most = self._files.number(f"{folder}/{limit}")
            if most is None or most >= _NO_LIMIT:
                continue
            try:
                table = self._files.text(f"{folder}/memory.stat")
            except OSError:
                continue
            values = dict(line.split(" ", 1) for line in table.splitlines() if " " in line)
            used = [int(values[name]) for name in fields if values.get(name, "").isdecimal()]
            return max(0, most - sum(used))
        return None


_NO_LIMIT = 1 << 60
"""Version 1 says a number near 2^63 where there is none."""
