"""Numbers for process groups, the same on every member and across restarts."""

from __future__ import annotations

import re
import weakref
import zlib
from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Kind, text_bytes

_HASHED = re.compile("[0-9a-f]{40}")
_HASH_SHOWN = 8
_UNDESCRIBED = ("", "undefined")
"""Torch's purpose for a group without one."""


def group_number(ranks: list[int], name: str = "") -> int:
    """Return the number for the group of these global ranks: a CRC-32, equal on all members.

    `name` is torch's name for the group, which distinguishes groups with the same ranks. The
    job's initial group of all ranks, and a pair that exchanges, have no name.
    """
    return zlib.crc32(",".join(map(str, ranks)).encode() + (f":{name}" if name else "").encode())


def describe(ranks: list[int]) -> str:
    """Return a group's ranks as short text: `0-3` for a range, `0,2` otherwise."""
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


class GroupNumbers:
    """Remembers each group's number and writes one GROUP record when it is first seen."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self.numbers: dict[int, int] = {}
        """Each known group's number by its `id`."""
        self._pairs: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def number(self, group: Any) -> int:
        """Return the number of `group`, a ProcessGroup; None means the world."""
        number = self.numbers.get(id(group))
        return self._introduce(group) if number is None else number

    @guarded(fallback=0)
    def pair(self, group: Any, peer: int) -> int:
        """Return the number for the pair of this rank and rank `peer` in `group`."""
        import torch.distributed as dist

        ring = self._recorder.ring
        if ring is None:
            return 0
        peer_rank = dist.get_global_rank(group, peer)
        if peer_rank not in self._pairs:
            self._recorder.settle()
            own_rank = ring.identity.rank
            self._pairs[peer_rank] = self._write(sorted((own_rank, peer_rank)), own_rank)
        return self._pairs[peer_rank]

    @guarded(fallback=0)
    def _introduce(self, group: Any) -> int:
        ring = self._recorder.ring
        if ring is None:
            return 0
        self._recorder.settle()
        ranks = _ranks(group, ring.identity.world)
        number = self._write(ranks, ring.identity.rank, *_name(group))
        key = id(group)
        if group is not None:
            # A destroyed group's id is soon reused by another group.
            self._alive[key] = weakref.ref(group, lambda _: self.numbers.pop(key, None))
        self.numbers[key] = number
        return number

    def _write(self, ranks: list[int], own_rank: int, name: str = "", purpose: str = "") -> int:
        """Write the GROUP record for these ranks; return their number."""
        ring, number = self._recorder.ring, group_number(ranks, name)
        index = ranks.index(own_rank) if own_rank in ranks else 0
        text = text_bytes(describe(ranks), 48)
        label = text_bytes(_label(name, purpose), 32)
        step, now = self._recorder.step_number, self._recorder.clock()
        if ring is not None:
            ring.write(Kind.GROUP, step, now, number, len(ranks), index, text, label)
        return number


def _ranks(group: Any, world: int) -> list[int]:
    if group is None:
        return list(range(world))
    import torch.distributed as dist

    if not dist.is_initialized():
        return list(range(world))
    return sorted(dist.get_process_group_ranks(group))


def _name(group: Any) -> tuple[str, str]:
    """Return torch's name and purpose for a group; empty for the job's initial group.

    Members meet under this name in the store, so it is the same on all members. The order in which
    they first use groups may differ.
    """
    if group is None:  # also without torch
        return "", ""
    import torch.distributed as dist

    if not dist.is_initialized() or group is dist.group.WORLD:
        return "", ""
    # `group_name` raises if a group was created without one.
    try:
        return str(group.group_name), str(getattr(group, "group_desc", ""))
    except (AttributeError, RuntimeError):
        return "", ""


def _label(name: str, purpose: str) -> str:
    """Return name and purpose in readable form: `3 mesh_tp`, `1`, the start of a hash."""
    shown = name[:_HASH_SHOWN] if _HASHED.fullmatch(name) else name
    return shown if not name or purpose in _UNDESCRIBED else f"{shown} {purpose}"
