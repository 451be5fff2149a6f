"""Numbers for process groups, the same on every member and across restarts."""

from __future__ import annotations

import weakref
import zlib
from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Kind, text_bytes


def group_number(ranks: list[int]) -> int:
    """Number of the group of these global ranks: a CRC-32 of the list, equal on all members."""
    return zlib.crc32(",".join(map(str, ranks)).encode())


def describe(ranks: list[int]) -> str:
    """Ranks of a group as short text: `0-3` for a range, `0,2` otherwise."""
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


class GroupNumbers:
    """Remembers each group's number and writes one GROUP record when it is first seen."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._numbers: dict[int, int] = {}
        self._pairs: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def number(self, group: Any) -> int:
        """Number of `group`, a ProcessGroup; None stands for the world."""
        known = self._numbers.get(id(group))
        return self._introduce(group) if known is None else known

    @guarded(fallback=0)
    def pair(self, group: Any, peer: int) -> int:
        """Number of the pair that this rank is with rank `peer` of `group`."""
        import torch.distributed as dist

        ring = self._recorder.ring
        if ring is None:
            return 0
        other = dist.get_global_rank(group, peer)
        if other not in self._pairs:
            self._recorder.settle()
            own = ring.identity.rank
            self._pairs[other] = self._write(sorted((own, other)), own)
        return self._pairs[other]

    @guarded(fallback=0)
    def _introduce(self, group: Any) -> int:
        ring = self._recorder.ring
        if ring is None:
            return 0
        self._recorder.settle()
        number = self._write(_ranks(group, ring.identity.world), ring.identity.rank)
        key = id(group)
        if group is not None:
            # The id of a destroyed group is soon that of another one.
            self._alive[key] = weakref.ref(group, lambda _: self._numbers.pop(key, None))
        self._numbers[key] = number
        return number

    def _write(self, ranks: list[int], own: int) -> int:
        """Write the GROUP record of these ranks; returns their number."""
        ring, number = self._recorder.ring, group_number(ranks)
        index = ranks.index(own) if own in ranks else 0
        text = text_bytes(describe(ranks), 48)
        step, now = self._recorder.step_number, self._recorder.clock()
        if ring is not None:
            ring.write(Kind.GROUP, step, now, number, len(ranks), index, text)
        return number


def _ranks(group: Any, world: int) -> list[int]:
    if group is None:
        return list(range(world))
    import torch.distributed as dist

    if not dist.is_initialized():
        return list(range(world))
    return sorted(dist.get_process_group_ranks(group))
