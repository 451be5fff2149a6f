"""A process's memory by NUMA node, from a sample of its pages.

`/proc/PID/numa_maps` counts all pages. It takes 29 ms per gibibyte (Linux 6, 4 KiB pages), and the
kernel holds a lock during which the process cannot map memory. The rank would wait for it, and all
others for the rank. `move_pages(2)` without a target only reports locations, and holds the lock
for 16 pages at a time.
"""

from __future__ import annotations

import ctypes
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

PAGE = 4096
SAMPLES = 1024
LEAST_PRESENT = 64
"""With fewer present pages the sample is not meaningful."""
MAX_MAPS_BYTES = 4 << 20
_CALLS = {"x86_64": 279, "aarch64": 239}
"""System call number for move_pages(2), by machine (asm/unistd.h)."""
_OWN = ("", "[heap]", "[anon", "/dev/shm/", "/dev/zero", "/memfd:")
"""Mapping names without a file: library mappings are common to all ranks."""
_LIBC = ctypes.CDLL(None, use_errno=True)

Locate = Callable[[int, Sequence[int]], list[int]]
"""Map a process id and addresses to NUMA nodes, below 0 if unknown."""


def located(pid: int, addresses: Sequence[int]) -> list[int]:
    """Return the NUMA node for each address in a process; below 0 without a page.

    Raises:
        OSError: the kernel has no NUMA nodes, or this user may not query the process.
    """
    number = _CALLS.get(platform.machine())
    if number is None:
        raise OSError(f"stepwatch does not know move_pages(2) of {platform.machine()}")
    pages = (ctypes.c_void_p * len(addresses))(*addresses)
    nodes = (ctypes.c_int * len(addresses))(*[-1] * len(addresses))
    count = ctypes.c_ulong(len(addresses))
    if _LIBC.syscall(number, pid, count, pages, None, nodes, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"move_pages(2): errno {code}")
    return list(nodes)


def memory_by_node(pid: int, proc: Path, locate: Locate = located) -> Counter[int] | None:
    """Return sampled private pages by NUMA node; None if unknown."""
    try:
        with (proc / str(pid) / "maps").open("rb") as file:
            lines = file.read(MAX_MAPS_BYTES).decode(errors="replace").splitlines()
        nodes = locate(pid, _spread(lines))
    except OSError:
        return None
    counts = Counter(node for node in nodes if node >= 0)
    return counts if counts.total() >= LEAST_PRESENT else None


def _spread(lines: Sequence[str]) -> list[int]:
    """Return `SAMPLES` page addresses, spread evenly over writable memory without a file.

    For two ranges with 3 and 1 pages and two samples: the first range's first and third page.
    """
    ranges = [bounds for line in lines if (bounds := _own_range(line))]
    total = sum(end - begin for begin, end in ranges) // PAGE
    count = min(SAMPLES, total)
    wanted = [index * total // count for index in range(count)]
    addresses, passed, ahead = [], 0, iter(ranges)
    begin, end = next(ahead, (0, 0))
    for page in wanted:
        while page - passed >= (end - begin) // PAGE:
            passed += (end - begin) // PAGE
            begin, end = next(ahead)
        addresses.append(begin + (page - passed) * PAGE)
    return addresses


def _own_range(line: str) -> tuple[int, int] | None:
    """Parse `7f00-7f80 rw-p 00000000 00:00 0 [heap]` to begin and end, if it is private memory."""
    words = line.split(maxsplit=5)
    if len(words) < 5 or not words[1].startswith("rw"):
        return None
    name = words[5] if len(words) > 5 else ""
    if name and not name.startswith(_OWN[1:]):
        return None
    begin, _, end = words[0].partition("-")
    return int(begin, 16), int(end, 16)
