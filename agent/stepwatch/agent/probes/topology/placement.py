"""Ranks whose CPUs or memory are far from their device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact

from .memory import Locate, located, memory_by_node
from .numa import NumaNodes, cpu_list
from .pci import UNKNOWN_NODE, Function

MAX_PROCESSES = 256


class Thresholds(NamedTuple):
    """Limits for a misplaced rank."""

    least_distance: int = 20
    """Distance: from here on another NUMA node is far. 10 is local, 20 takes twice as long (ACPI
    6.5, 5.2.17). Parts of one socket (sub-NUMA clusters) are 11 to 13 apart, which costs little;
    two sockets are 20 to 32.
    """
    least_far_ratio: float = 0.5
    """Share: a rank's memory on far nodes. A rank that was placed and then used free memory has
    less than half.
    """
    least_bytes: int = 1073741824
    """Bytes: a rank with less memory of its own is mostly interpreter and libraries, and most bytes
    that it moves are elsewhere.
    """
    memory_seconds: float = 60.0
    """Seconds: the time between two memory samples for a rank. Pages rarely move; a sample takes 2
    ms and blocks the rank for microseconds at a time.
    """
    layout_seconds: float = 60.0
    """Seconds: the time between two reads of cards and NUMA nodes, which change only with the
    hardware.
    """


LIMITS = Thresholds()
"""The shipped limits."""


class _Memory(NamedTuple):
    at_ns: int
    words: str


class Placement:
    """Compare processes with their devices; `proc` is the `/proc` path, `locate` finds pages."""

    def __init__(self, proc: Path, locate: Locate = located) -> None:
        self._proc = proc
        self._locate = locate
        self._memory: dict[tuple[int, int], _Memory] = {}

    def find(self, pid: int, device: Function, nodes: NumaNodes, now_ns: int) -> Iterator[Sighting]:
        """Yield a fact if a process is far from its device; nothing if unknown."""
        if len(nodes.cpus) < 2 or device.node == UNKNOWN_NODE:
            return
        remote_nodes = {
            node
            for node in nodes.cpus
            if nodes.distance(node, device.node) >= LIMITS.least_distance
        }
        status = _status(self._proc / str(pid))
        of_cpus = nodes.of_cpus(cpu_list(status.get("Cpus_allowed_list", "")))
        words = []
        if of_cpus and remote_nodes.issuperset(of_cpus):
            words.append(f"may run on NUMA node {_listed(of_cpus)} alone")
        if memory := self._of_memory(pid, device.node, frozenset(remote_nodes), status, now_ns):
            words.append(memory)
        if words:
            text = f"process {pid} {' and '.join(words)}; its device is on node {device.node}"
            yield Sighting(NodeFact.NUMA_MISPLACED, device.address[:-2], text, pid=pid)

    def forget(self, pids: frozenset[int]) -> None:
        """Forget all other processes."""
        self._memory = {key: memory for key, memory in self._memory.items() if key[0] in pids}

    def _of_memory(
        self,
        pid: int,
        device_node: int,
        remote_nodes: frozenset[int],
        status: dict[str, str],
        now_ns: int,
    ) -> str:
        """Describe where most memory is, if that is far; refreshed periodically."""
        cached = self._memory.get((pid, device_node))
        if cached is not None and now_ns - cached.at_ns < LIMITS.memory_seconds * NANOSECONDS:
            return cached.words
        words = self._memory_words(pid, remote_nodes, status)
        if len(self._memory) < MAX_PROCESSES:
            self._memory[pid, device_node] = _Memory(now_ns, words)
        return words

    def _memory_words(self, pid: int, remote_nodes: frozenset[int], status: dict[str, str]) -> str:
        size = sum(_bytes(status.get(name, "")) for name in ("RssAnon", "RssShmem"))
        if size < LIMITS.least_bytes:
            return ""
        pages = memory_by_node(pid, self._proc, self._locate)
        if pages is None:
            return ""
        away = {node: count for node, count in pages.items() if node in remote_nodes}
        share = sum(away.values()) / pages.total()
        if share < LIMITS.least_far_ratio:
            return ""
        return f"has {share:.0%} of its {size / (1 << 30):.1f} GiB on node {_listed(sorted(away))}"


def _status(folder: Path) -> dict[str, str]:
    try:
        lines = (folder / "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _bytes(words: str) -> int:
    """Convert `421 kB` to bytes; 0 for another format."""
    number, _, unit = words.partition(" ")
    return int(number) * 1024 if unit == "kB" and number.isdecimal() else 0


def _listed(nodes: list[int]) -> str:
    return ", ".join(map(str, nodes))
