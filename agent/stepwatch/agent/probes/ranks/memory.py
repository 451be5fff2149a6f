"""A rank's additional memory: its children's growth, and its control group's room.

A forked child maps its parent's pages, which count in both processes. So a child counts only its
growth since it was first seen. Pages that it only copied count with the parent, so that growth is
not seen. A walk reads one file per process on the node, so it happens every `EVERY_SECONDS`.
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
"""Seconds between walks: soon enough for growth that fills a node in a minute or two."""


class FamilyMemory(NamedTuple):
    """A rank's additional memory.

    `children_bytes` is the children's growth. `group_room_bytes` is the room below the control
    group's limit, and `memory_group` that group's number: 0 without a limit.
    """

    children_bytes: int = 0
    group_room_bytes: int = 0
    memory_group: int = 0


class FamilyMemoryReader:
    """Read `FamilyMemory` by the ranks' process ids; `root` contains the control groups."""

    def __init__(self, proc: Path, root: Path, files: KernelFiles) -> None:
        self._proc, self._root, self._files = proc, root, files
        self._first: dict[int, int] = {}
        self._newest: Mapping[int, FamilyMemory] = {}
        self._read_ns = 0

    def read(self, pids: Iterable[int], now_ns: int) -> Mapping[int, FamilyMemory]:
        """Return each process's newest reading; `now_ns` is monotonic."""
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
        """Return the room and number for the process's tightest group."""
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
        """Return the bytes below the limit, without droppable files; None if there is no limit."""
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
"""Version 1 writes a number near 2^63 for no limit."""
