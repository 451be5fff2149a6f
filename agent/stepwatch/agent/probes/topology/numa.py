"""NUMA nodes: their CPUs and distances."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .pci import text

MAX_NODES = 256
MAX_CPUS = 8192
LOCAL_DISTANCE = 10
"""A node's distance to itself (ACPI 6.5, 5.2.17)."""


class NumaNodes(NamedTuple):
    """CPUs by NUMA node, and distances by node pair: 10 is local, 20 takes twice as long.

    Memory without CPUs, such as a device's memory, is not a node here.
    """

    cpus: Mapping[int, frozenset[int]]
    distances: Mapping[tuple[int, int], int]

    def of_cpus(self, cpus: frozenset[int]) -> list[int]:
        """Return nodes that have at least one CPU in `cpus`."""
        return [node for node, node_cpus in sorted(self.cpus.items()) if node_cpus & cpus]

    def distance(self, first: int, second: int) -> int:
        """Return the distance; without a firmware value, the usual local or remote distance."""
        usual = LOCAL_DISTANCE if first == second else 2 * LOCAL_DISTANCE
        return self.distances.get((first, second), usual)


def read_nodes(sys: Path) -> NumaNodes:
    """Return the nodes in `/sys/devices/system/node`; none if the kernel lists none."""
    folders = sorted((sys / "devices/system/node").glob("node[0-9]*"))[:MAX_NODES]
    by_number = {int(folder.name[4:]): folder for folder in folders if folder.name[4:].isdecimal()}
    cpus = {number: cpu_list(text(folder / "cpulist")) for number, folder in by_number.items()}
    distances = {}
    for number, folder in by_number.items():
        words = text(folder / "distance").split()
        if len(words) == len(by_number):
            for second, word in zip(sorted(by_number), words, strict=True):
                if word.isdecimal() and len(word) < 4:
                    distances[number, second] = int(word)
    return NumaNodes(
        {number: node_cpus for number, node_cpus in cpus.items() if node_cpus}, distances
    )


def cpu_list(words: str) -> frozenset[int]:
    """Parse the kernel's CPU list: `0-3,8` is 0, 1, 2, 3 and 8."""
    cpus: set[int] = set()
    for word in words.split(","):
        first, _, last = word.strip().partition("-")
        last = last or first
        if first.isdecimal() and last.isdecimal() and max(len(first), len(last)) < 6:
            cpus.update(range(int(first), min(int(last), MAX_CPUS) + 1))
    return frozenset(cpus)
