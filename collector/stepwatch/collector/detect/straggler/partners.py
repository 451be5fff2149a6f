"""Partners: ranks that work on the same sequences, as the ranks in a tensor group do.

They hide each other: if their sequence is the longest, neither works longer than all others. If one
of them is left out of the comparison, because it is slow itself or not observed, no rank hides the
other, whose cost then includes the chance from its sequences. So it is named only if it clearly
works longer than ranks in other groups, whatever the sequences are.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache

import numpy as np

from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective
from stepwatch.signals.arrays import FloatMatrix, Floats, Integers, Mask

LEAST_SURE = 5.0
"""Standard errors by which a rank's work must exceed that of other groups."""
_FEWEST_STEPS = 32
_MOST_RANKS, _MOST_GROUPS = 64, 16
"""Maximum number of compared ranks in other groups, and of groups."""
_ALIKE = 0.5
"""Members of one group must differ by this factor less than ranks in different groups.

Otherwise the group has another purpose: without shared sequences they differ as much.
"""
_WELL_SEEN = 0.9

Calls = Mapping[tuple[int, int], BaselineCollective]


class Partners:
    """The partners of each rank in `window`, from the `calls` in the job's `groups`.

    They are looked up on request, which is rare. `left_out` ranks are unobserved, or were so for a
    part of the evidence.
    """

    def __init__(
        self,
        window: Window,
        calls: Calls,
        groups: Mapping[int, Group],
        left_out: Collection[int] = (),
    ) -> None:
        self._window, self._calls, self._groups = window, calls, groups
        self.left_out = frozenset(left_out)

    def may_be_chance(self, rank: int, named: Collection[int] = ()) -> bool:
        """Return whether the slowness of `rank` may be chance because a partner is excluded.

        A partner is excluded if it is `named` or left out. The slowness is not chance if `rank`
        clearly works longer than ranks in other groups.
        """
        if not self.left_out and not named:  # nearly always
            return False
        partners = self._partner_group(rank)
        others_in_group = partners - {rank}
        if not others_in_group & self.left_out and others_in_group.isdisjoint(named):
            return False
        compared = self._compared(rank, partners, named)
        if not self._share_sequences(rank, partners, compared):
            return False
        return self._sureness(rank, np.flatnonzero(compared)) < LEAST_SURE

    @cached_property
    def _often(self) -> dict[frozenset[int], float]:
        """Return how often each group's members meet in a step."""
        meetings: defaultdict[frozenset[int], float] = defaultdict(float)
        for (number, _), call in self._calls.items():
            members = _members(self._groups[number].ranks) if number in self._groups else None
            if members:
                meetings[members] += call.calls
        return meetings

    @cached_property
    def _groups_of(self) -> dict[int, list[frozenset[int]]]:
        groups_by_rank: defaultdict[int, list[frozenset[int]]] = defaultdict(list)
        for group in self._often:
            for rank in group:
                groups_by_rank[rank].append(group)
        return groups_by_rank

    @cached_property
    def _observed(self) -> Mask:
        """Return which ranks (ranks,) are not left out."""
        ranks = len(self._window.stage)
        is_observed = np.ones(ranks, dtype=np.bool_)
        is_observed[[rank for rank in self.left_out if rank < ranks]] = False
        return is_observed

    def _partner_group(self, rank: int) -> frozenset[int]:
        """Return the group within its stage that `rank` meets most often, itself included.

        The result is empty without one.
        """
        peers = self._peers(rank)
        size = int(peers.sum())
        candidates = [
            group
            for group in self._groups_of.get(rank, ())
            if 1 < len(group) < size and _are_all(group, peers)
        ]
        return max(
            candidates, key=lambda group: (self._often[group], -len(group)), default=frozenset()
        )

    def _peers(self, rank: int) -> Mask:
        """Return which ranks (ranks,) are in the stage of `rank`."""
        stage = self._window.stage
        return np.asarray(stage == stage[rank])

    def _compared(self, rank: int, partners: frozenset[int], named: Collection[int]) -> Mask:
        """Return which ranks (ranks,) in the stage are in other groups, and not left out."""
        is_compared = self._peers(rank) & self._observed
        is_compared[[*partners, *named]] = False
        return is_compared

    def _share_sequences(self, rank: int, partners: frozenset[int], compared: Mask) -> bool:
        """Return whether members of other groups of that kind share their sequences.

        They do if they differ clearly less from each other, step by step, than ranks in different
        groups do. If no complete group is known, they may. Lengths 1 1 | 2 2 and 2 2 | 1 1 in two
        groups: 0 within, 1 between them. With one group only, the difference between groups is that
        from `rank`, less its constant slowness.
        """
        kind = (
            sorted(group)[:_MOST_RANKS]
            for group, often in self._often.items()
            if len(group) == len(partners)
            and often >= _ALIKE * self._often[partners]
            and _are_all(group, compared)
        )
        groups = list(itertools.islice(kind, _MOST_GROUPS))
        if not groups:
            return True
        work = self._work(np.array([rank, *itertools.chain(*groups)]))
        rank_work, other_work = work[:, 0], work[:, 1:].reshape(len(work), len(groups), -1)
        within = np.abs(np.diff(other_work, axis=2))
        if len(groups) > 1:
            apart = np.abs(np.diff(other_work, axis=1))
        else:
            apart = rank_work - other_work.mean(axis=(1, 2))
            apart = np.abs(apart - _median(apart))
        return bool(_mean(within) <= _ALIKE * _mean(apart))

    def _sureness(self, rank: int, other_ranks: Integers) -> float:
        """Return by how many standard errors the work of `rank` exceeds the mean of `other_ranks`.

        The result is infinite without other ranks: the rank was compared with its partners alone.
        It is minus infinity if too few steps are known.
        """
        if not len(other_ranks):
            return math.inf
        work = self._work(np.append(rank, other_ranks[:: -(-len(other_ranks) // _MOST_RANKS)]))
        complete = ~np.isnan(work[:, 0]) & ~np.isnan(work[:, 1:]).all(axis=1)
        if complete.sum() < _FEWEST_STEPS:
            return -math.inf
        rank_work, other_work = work[complete, 0], work[complete, 1:]
        other_work = other_work[:, ~np.isnan(other_work).all(axis=0)]
        excess = rank_work - np.nanmean(other_work, axis=1)
        # By chance its own sequences may all have had one length.
        spread = max(float(excess.std(ddof=1)), _median(np.nanstd(other_work, axis=0)))
        return float(excess.mean()) / max(spread / math.sqrt(len(excess)), 1e-12)

    def _work(self, ranks: Integers) -> FloatMatrix:
        """Return the self time (steps, ranks) in all phases; NaN where nothing was received."""
        planes = self._window.planes
        work = np.sum([planes[name][:, ranks] for name in WORK], axis=0, dtype=np.float64)
        return np.where(np.isnan(planes["duration"][:, ranks]), np.nan, work)


def rarely_seen(course: Course, ranks: int) -> frozenset[int]:
    """Return which of the first `ranks` units were compared in clearly fewer steps of `course`.

    The reference is the unit compared most often: evidence on their partners is from a time without
    them.
    """
    step_counts = course.compared[:, :ranks].sum(axis=0, dtype=np.int64)
    return frozenset(np.flatnonzero(step_counts < _WELL_SEEN * step_counts.max(initial=0)).tolist())


def _are_all(group: frozenset[int], chosen: Mask) -> bool:
    """Return whether all ranks in `group` are among the `chosen` (ranks,)."""
    ranks = np.fromiter(group, dtype=np.int64, count=len(group))
    return bool(ranks.max() < len(chosen) and chosen[ranks].all())


def _mean(values: Floats) -> float:
    """Return the mean of the finite values; 0 without any."""
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if len(finite) else 0.0


def _median(values: Floats) -> float:
    """Return the median of the finite values; 0 without any."""
    finite = values[~np.isnan(values)]
    return float(np.median(finite)) if len(finite) else 0.0


@lru_cache(maxsize=8192)
def _members(text: str) -> frozenset[int] | None:
    return members_of(text)
