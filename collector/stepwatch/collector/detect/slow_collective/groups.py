"""The groups that a finding is about, and the slow groups' common rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.detect.slow_collective.thresholds import Thresholds
from stepwatch.collector.detect.slow_collective.transfers import Key, Transfers
from stepwatch.collector.state.collective_timing import Waits
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective


def subject_of(key: Key, groups: Mapping[int, Group], sizes: Mapping[Key, float]) -> str:
    """Return a finding's subject: `ranks 0-7`, or `groups of 8 ranks`.

    The second form applies if other groups with that size pass about as many bytes by the same
    operation. On a slow network a job's tensor groups are slow in turns, and this is one incident,
    whichever group proves it; the summary names that group. `sizes` holds the bytes of all groups.
    """
    size = groups[key[0]].size
    alike = {
        groups[number].ranks
        for (number, op), nbytes in sizes.items()
        if op == key[1] and number in groups and groups[number].size == size
        if sizes[key] / _AS_MANY_BYTES <= nbytes <= sizes[key] * _AS_MANY_BYTES
    }
    return f"groups of {size} ranks" if len(alike) > 1 else f"ranks {groups[key[0]].ranks}"


_AS_MANY_BYTES = 2.0


def bytes_of(baseline: Mapping[Key, BaselineCollective]) -> dict[Key, float]:
    """Return the bytes that a rank passes in each group and operation."""
    return {key: call.bytes for key, call in baseline.items()}


def common_rank(
    waits: Waits,
    moved: Transfers,
    slow_keys: list[Key],
    baseline: Mapping[Key, BaselineCollective],
    limits: Thresholds,
) -> int:
    """Return the only rank in all slow groups and in no healthy one with the same operation, or -1.

    A single group without a comparison names no rank.
    """
    members = _members(waits)
    suspects = set.intersection(*(members[group] for group, _ in slow_keys))
    slow_groups = {group for group, _ in slow_keys}
    for key in moved.keys:
        group, op = key
        alike = [baseline[slow_key].bytes for slow_key in slow_keys if slow_key[1] == op]
        comparable = key in baseline and not np.isnan(moved.seconds[moved.keys.index(key)]).all()
        if group in slow_groups or not alike or not comparable:
            continue
        if baseline[key].bytes >= limits.clearing_bytes_ratio * max(alike):
            suspects -= members[group]
    return suspects.pop() if len(suspects) == 1 else NO_RANK


def _members(waits: Waits) -> dict[int, set[int]]:
    pairs = np.unique(
        np.stack([waits.rows["group"].astype(np.int64), waits.rows["rank"].astype(np.int64)]),
        axis=1,
    )
    numbers, starts = np.unique(pairs[0], return_index=True)
    parts = np.split(pairs[1], starts[1:])
    return {
        number: set(part.tolist()) for number, part in zip(numbers.tolist(), parts, strict=True)
    }
