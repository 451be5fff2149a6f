"""Partners: ranks that meet most often within a step, as those of a tensor group do.

They may work on the same sequences, and then hide each other: when theirs are the longest, neither
works longer than all others. Where one of them is left out of the comparison, slow itself or not
observed, nobody hides the other, which seems to cost what chance makes of its sequences. So it is
named only if it clearly works longer than ranks of other groups, whatever the sequences are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache

import numpy as np

from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.trackers.baseline import BaselineCollective
from stepwatch.collector.state.trackers.collective_records import Group
from stepwatch.collector.state.trackers.step_window import WORK, Window
from stepwatch.signals.arrays import FloatMatrix, Integers, Mask

LEAST_SURE = 5.0
"""Standard errors by which the work of a rank must exceed that of other groups."""
_FEWEST_STEPS = 16
_MOST_RANKS = 64
"""Ranks of other groups that are compared with, at most."""
_WELL_SEEN = 0.9

Calls = Mapping[tuple[int, int], BaselineCollective]


class Partners:
    """The partners of each rank of `window`, by the `calls` of the job's `groups`; looked up when
    somebody asks, which is rarely.

    `left_out` are ranks that are not observed, or were not for a part of what evidence holds.
    """

    def __init__(
        self,
        window: Window,
        calls: Calls,
        groups: Mapping[int, Group],
        left_out: Collection[int] = (),
    ) -> None:
        self._window, self._calls, self._groups = window, calls, groups
        self._left_out = frozenset(left_out)

    def may_be_chance(self, rank: int, named: Collection[int] = ()) -> bool:
        """Whether a partner of `rank` is `named` or left out, and `rank` itself does not clearly
        work longer than ranks of other groups."""
        left_out = self._left_out.union(named) - {rank}
        if not left_out:  # nearly always
            return False
        partners = self._of(rank)
        return bool(partners & left_out) and self._sureness(rank, partners, left_out) < LEAST_SURE

    @cached_property
    def _often(self) -> dict[frozenset[int], float]:
        """How often the members of each group meet in a step."""
        found: defaultdict[frozenset[int], float] = defaultdict(float)
        for (number, _), call in self._calls.items():
            members = _members(self._groups[number].ranks) if number in self._groups else None
            if members:
                found[members] += call.calls
        return found

    @cached_property
    def _groups_of(self) -> dict[int, list[frozenset[int]]]:
        found: defaultdict[int, list[frozenset[int]]] = defaultdict(list)
        for group in self._often:
            for rank in group:
                found[rank].append(group)
        return found

    def _of(self, rank: int) -> frozenset[int]:
        """The group that `rank` meets most often, of those that are a part of its stage, itself
        included; empty without one."""
        peers = self._peers(rank)
        size = int(peers.sum())
        mine = [
            group
            for group in self._groups_of.get(rank, ())
            if 1 < len(group) < size and _are_all(group, peers)
        ]
        return max(mine, key=lambda group: (self._often[group], -len(group)), default=frozenset())

    def _peers(self, rank: int) -> Mask:
        """Which ranks (ranks,) are in the stage of `rank`."""
        stage = self._window.stage
        return np.asarray(stage == stage[rank])

    def _sureness(self, rank: int, partners: frozenset[int], left_out: frozenset[int]) -> float:
        """By how many standard errors the work of `rank` exceeds the mean of other groups' ranks.

        Infinite where there are none: it was compared with its partners alone. Minus infinity where
        too few steps are known to say.
        """
        peers = self._peers(rank)
        peers[[each for each in partners | left_out if each < len(peers)]] = False
        others = np.flatnonzero(peers)
        if not len(others):
            return math.inf
        others = others[:: -(-len(others) // _MOST_RANKS)]
        work = self._work(np.append(rank, others))
        known = ~np.isnan(work[:, 0]) & ~np.isnan(work[:, 1:]).all(axis=1)
        if known.sum() < _FEWEST_STEPS:
            return -math.inf
        excess = work[known, 0] - np.nanmean(work[known, 1:], axis=1)
        error = float(excess.std(ddof=1)) / math.sqrt(len(excess))
        return float(excess.mean()) / max(error, 1e-12)

    def _work(self, ranks: Integers) -> FloatMatrix:
        """Self time (steps, ranks) of some ranks in all phases; NaN where nothing was received."""
        planes = self._window.planes
        work = np.sum([planes[name][:, ranks] for name in WORK], axis=0, dtype=np.float64)
        return np.where(np.isnan(planes["duration"][:, ranks]), np.nan, work)


def rarely_seen(course: Course, ranks: int) -> frozenset[int]:
    """Which of the first `ranks` units were compared with others in clearly fewer steps of `course`
    than the one that was in most: evidence on their partners is from a time without them."""
    seen = course.seen[:, :ranks].sum(axis=0, dtype=np.int64)
    return frozenset(np.flatnonzero(seen < _WELL_SEEN * seen.max(initial=0)).tolist())


def _are_all(group: frozenset[int], peers: Mask) -> bool:
    ranks = np.fromiter(group, dtype=np.int64, count=len(group))
    return bool(ranks.max() < len(peers) and peers[ranks].all())


@lru_cache(maxsize=8192)
def _members(text: str) -> frozenset[int] | None:
    return members_of(text)
