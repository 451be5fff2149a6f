"""Huge page requests that failed, and the remaining free pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.records import NodeFact

from .limits import LIMITS

HUGE_ORDER = 9
"""The order of a 2 MiB block: 512 pages with 4 KiB."""
MAX_ZONES = 256
COUNTERS = ("thp_fault_alloc", "thp_fault_fallback", "htlb_buddy_alloc_fail")
"""Counters in `/proc/vmstat`: huge pages allocated, missed, and not reservable."""


class HugePages:
    """Compare two `/proc/vmstat` readings; `proc` contains `buddyinfo`."""

    def __init__(self, proc: Path) -> None:
        self._buddies = proc / "buddyinfo"
        self._previous: Mapping[str, int] = {}

    def find(
        self, memory: Mapping[str, int], counters: Mapping[str, int], seconds: float
    ) -> Iterator[Sighting]:
        """Yield a fact if huge pages ran out in the last `seconds`; `memory` is `/proc/meminfo`."""
        now = {name: counters[name] for name in COUNTERS if name in counters}
        previous, self._previous = self._previous, now
        grown = {name: now[name] - previous[name] for name in now if name in previous}
        missed = grown.get("thp_fault_fallback", 0)
        requests = missed + grown.get("thp_fault_alloc", 0)
        words = []
        enough = missed >= LIMITS.least_missed_huge_pages * seconds
        if enough and missed >= LIMITS.least_missed_ratio * requests:
            words.append(f"{missed} of {requests} huge pages were not to be had")
        if (reserved := grown.get("htlb_buddy_alloc_fail", 0)) > 0:
            free = memory.get("HugePages_Free", 0)
            words.append(f"{reserved} more could not be reserved, {free} reserved ones are free")
        if words:
            free_text = ", ".join(f"node {node}: {n}" for node, n in self._free_pages().items())
            text = (
                f"{'; '.join(words)}{f'; left of 2 MiB and more: {free_text}' if free_text else ''}"
            )
            yield Sighting(NodeFact.HUGE_PAGES_SHORT, "memory", text)

    def _free_pages(self) -> dict[str, int]:
        """Return free blocks from 2 MiB up by NUMA node, counted in huge pages.

        `Node 0, zone Normal 9 8 7 6 5 4 3 2 1 5 2` lists free blocks by order: 5 blocks with order
        9 and 2 with order 10, twice as large, make 9 huge pages.
        """
        try:
            lines = self._buddies.read_text(errors="replace").splitlines()[:MAX_ZONES]
        except OSError:
            return {}
        free_pages: dict[str, int] = {}
        for line in lines:
            head, _, tail = line.partition(", zone")
            blocks = tail.split()[1:]
            if head.startswith("Node ") and all(count.isdecimal() for count in blocks):
                large = (int(n) << order for order, n in enumerate(blocks[HUGE_ORDER:]))
                node = head.removeprefix("Node ").strip()
                free_pages[node] = free_pages.get(node, 0) + sum(large)
        return free_pages
