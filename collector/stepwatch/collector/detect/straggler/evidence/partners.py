"""Ranks that work on the same sequences, as those of a tensor group do: none exceeds its partners.

Two such partners hide each other: when their sequence is the longest, neither works longer than all
others. A rank of which the partner is slow, or not observed, is hidden by nobody, and seems to cost
what chance makes of its sequences. So nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from stepwatch.collector.detect.straggler.evidence.costly import CostlyRank
from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.trackers.baseline import BaselineCollective
from stepwatch.collector.state.trackers.collective_records import Group
from stepwatch.collector.state.trackers.step_window import WORK, Window
from stepwatch.signals.arrays import Matrix, SmallIntegers

_ALIKE = 0.5
"""Partners differ by so much less than from other ranks, or the group has other reasons to meet."""

Calls = Mapping[tuple[int, int], BaselineCollective]


class Partners:
    """The partners of ranks, as `window` shows them, and the `calls` of the job's `groups`: looked
    up when somebody asks, which is rarely. `unobserved` are ranks of which nothing is known."""

    def __init__(
        self,
        window: Window,
        calls: Calls,
        groups: Mapping[int, Group],
        unobserved: Collection[int] = (),
    ) -> None:
        self._window, self._calls, self._groups = window, calls, groups
        self.unobserved = frozenset(unobserved)

    @cached_property
    def _met(self) -> dict[frozenset[int], float]:
        return _often(self._calls, self._groups)

    def leave_alone(self, rank: int, named: Collection[int]) -> bool:
        """Whether a partner of `rank` is `named`, or not observed, so that nobody hides it."""
        left_out = self.unobserved.union(named) - {rank}
        if not left_out:  # nearly always
            return False
        group = _group_of(rank, self._met, self._window.stage)
        return bool(group & left_out) and _hide_each_other(rank, group, self._met, self._window)


def without_partners(costly: Sequence[CostlyRank], partners: Partners) -> list[CostlyRank]:
    """`costly`, the costliest first, without those of which a partner is named before."""
    kept: list[CostlyRank] = []
    named: set[int] = set()
    for each in costly:
        if each.node < 0:
            if partners.leave_alone(each.rank, named):
                continue
            named.add(each.rank)
        kept.append(each)
    return kept


def _often(calls: Calls, groups: Mapping[int, Group]) -> dict[frozenset[int], float]:
    """How often the members of each group meet in a step."""
    found: dict[frozenset[int], float] = {}
    for (number, _), call in calls.items():
        members = _members(groups[number].ranks) if number in groups else None
        if members:
            found[members] = found.get(members, 0.0) + call.calls
    return found


@lru_cache(maxsize=8192)
def _members(text: str) -> frozenset[int] | None:
    return members_of(text)


def _group_of(
    rank: int, often: Mapping[frozenset[int], float], stage: SmallIntegers
) -> frozenset[int]:
    """The part of a stage that `rank` meets most often, itself included; empty without one."""
    peers = int((stage == stage[rank]).sum())
    mine = [
        group
        for group in often
        if rank in group and 1 < len(group) < peers and _within(group, stage, rank)
    ]
    return max(mine, key=lambda group: (often[group], -len(group)), default=frozenset())


def _within(group: Iterable[int], stage: SmallIntegers, rank: int) -> bool:
    return all(each < len(stage) and stage[each] == stage[rank] for each in group)


def _hide_each_other(
    rank: int, group: frozenset[int], often: Mapping[frozenset[int], float], window: Window
) -> bool:
    """Whether the members of other groups of that kind differ less from each other, step by step,
    than `rank` does from them: by how much it is slower on average does not count.

    Works 1, 2 of the rank and 2, 2 and 1, 1 of two partners: these never differ, it does by 1.
    """
    others = [
        sorted(each)
        for each in often
        if len(each) == len(group) and not each & group and often[each] >= often[group] * _ALIKE
    ]
    others = [each for each in others if _within(each, window.stage, rank)]
    if not others:
        return False
    own: Matrix = np.sum([window.planes[name] for name in WORK], axis=0, dtype=np.float64)
    own[np.isnan(window.planes["duration"])] = np.nan
    within, apart = [], []
    for members in others[:_MOST_GROUPS]:
        theirs = own[:, members]
        known = ~np.isnan(theirs).any(axis=1) & ~np.isnan(own[:, rank])
        if known.sum() >= _FEWEST:
            mean = theirs[known].mean(axis=1)
            beyond = own[known, rank] - mean
            within.append(float(np.median(np.ptp(theirs[known], axis=1))) / 2)
            apart.append(float(np.median(np.abs(beyond - np.median(beyond)))))
    if not within:  # too little is known of its newest steps to say that they are not
        return True
    return float(np.median(within)) <= _ALIKE * float(np.median(apart))


_MOST_GROUPS, _FEWEST = 16, 16
"""Groups that are compared with at most, and steps that must be known of each."""
