"""Slow collective: an operation in a group whose transfer takes clearly longer than its baseline.

The transfer is the last arriver's blocked time, so waiting for a straggler is not part of it.
Messages may grow: a transfer may grow in proportion to its bytes or calls. If members are late in
turns, the transfer is overestimated: all members then work longer, too, and that excess is no
transfer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run, is_certain, is_persistent
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import size as size_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.collective_timing import Waits, bus_bytes_per_second
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective
from stepwatch.signals.arrays import Floats, Integers, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import OP_NAMES, Op

Key = tuple[int, int]
"""A group and an operation, by their numbers."""
NOTHING = BaselineCollective(float("nan"), float("nan"), float("nan"))
AS_MANY_BYTES = 2.0
"""Groups pass about as many bytes within this factor; far fewer do not show a slow path."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a slow transfer."""

    window_steps: int = 8
    """Steps: the newest ones that are evaluated, as for stragglers. The fault is named within 10 s
    for steps up to 1 s.
    """
    least_steps: int = 6
    """Steps: how many of these, newest included, must be slow. One or two noisy steps raise
    nothing, and an operation that is slow in half as many belongs to a proven fault.
    """
    least_ratio: float = 2.0
    """Ratio: a transfer over its duration in the run's first steps, and one stage pair's sends over
    any other's. Degraded links are reported at 2x to 10x; transfers on shared hosts vary by half
    without any fault.
    """
    least_excess_ratio: float = 0.15
    """Share: the excess in the step. Less is not worth acting at night."""
    certain_ratio: float = 5.0
    """Ratio: this far above its baseline, a transfer counts from `least_lost_ratio` on. Only a bad
    path multiplies it like this.
    """
    least_lost_ratio: float = 0.05
    """Share: the cost that is worth a ticket, if the transfer is far longer or longer for good."""
    grown_ratio: float = 1.5
    """Ratio: a wait between pipeline stages, and a lasting one, over its baseline. A bubble of a
    third of the step is usual, so half as long again is beyond microbatch rounding and jitter.
    """
    stands_out: float = 5.0
    """Deviations: one rank's work must have grown by this many more than all ranks' before the
    others' wait is attributed to it. With many ranks, or few long steps in a bucket, one of them
    grows a lot by chance.
    """
    least_seconds: float = 40.0
    """Seconds: enough observation time against an earlier attempt, other jobs in the class, or
    `most_share`.
    """
    nearly_all_share: float = 0.9
    """Share: the ten-second buckets that must show a wait without a baseline, and the steps in a
    bucket that must be known per rank. An occasionally lost row hides no rank.
    """
    always_share: float = 0.667
    """Share: a transfer that takes two thirds of the time since the first steps is named, whether
    the network or the job causes it, as it has no reference. Small models on slow hosts exchange
    for half of their time.
    """
    always_seconds: float = 120.0
    """Seconds: how long `always_share` must last."""
    most_share: float = 0.8
    """Share: four fifths is more than any job is designed for, so `least_seconds` are enough."""


LIMITS = Thresholds()
"""The shipped thresholds."""


class Steps(NamedTuple):
    """The evaluated steps, in rising order, and each rank's excess work over its baseline.

    `seconds` (steps,) are the durations. `more_work` (steps, ranks) is the excess over the run's
    first steps in seconds, NaN where unknown. `slowdown` (steps,) is the factor by which most ranks
    work longer, at least 1: on a busy host transfers take longer, too.
    """

    numbers: Integers
    seconds: Vector
    slowdown: Vector
    more_work: Matrix


class Transfers(NamedTuple):
    """Operations by step: planes (keys, steps) of seconds and bytes, NaN where unknown.

    `expected` is the baseline for these bytes and calls on hosts that are as busy. `excess` is the
    time beyond it, NaN where lateness in turns explains it; `keys` names (group, op).
    """

    keys: list[Key]
    seconds: Matrix
    expected: Matrix
    excess: Matrix
    bytes: Matrix


def transfers(waits: Waits, baseline: Mapping[Key, BaselineCollective], steps: Steps) -> Transfers:
    """Return the operations in `steps`, with their baseline; there must be at least one."""
    heads, seconds = waits.rows[waits.first], waits.transfer[waits.first]
    numbers = heads["group"].astype(np.int64) << 16 | heads["op"]
    names, key = np.unique(numbers, return_inverse=True)
    keys = [(name >> 16, name & 0xFFFF) for name in names.tolist()]
    usual = np.array([baseline.get(pair, NOTHING) for pair in keys], dtype=np.float64)[key]
    step = np.searchsorted(steps.numbers, heads["step"])
    inside = step < len(steps.numbers)
    inside[inside] &= steps.numbers[step[inside]] == heads["step"][inside]
    step = np.where(inside, step, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.maximum(heads["bytes"] / usual[:, 1], heads["count"] / usual[:, 2])
    expected = usual[:, 0] * np.fmax(1.0, grown) * steps.slowdown[step]
    in_turns = _late_in_turns(waits, steps.more_work[step[waits.cell], waits.rows["rank"]])
    excess = seconds - expected
    excess[~(excess >= in_turns)] = np.nan

    def plane(values: Floats) -> Matrix:
        filled = np.full((len(keys), len(steps.numbers)), np.nan)
        filled[key[inside], step[inside]] = values[inside]
        return filled

    return Transfers(keys, *map(plane, (seconds, expected, excess, heads["bytes"])))


def _late_in_turns(waits: Waits, more_work: Vector) -> Vector:
    """Return per (group, op, step) the most that lateness in turns adds to the least wait.

    `more_work` (rows,) is the member's excess work. The member with the largest one waits only for
    the others, each of which may be the last in one call. With four members that work 1, 1, 0, 0 s
    longer, in two calls or more, the result is 1 s. If only one does, the result is 0: all others
    wait for it.
    """
    more = np.maximum(more_work, 0.0)
    most = np.maximum.reduceat(more, waits.first)
    members = np.diff(np.append(waits.first, len(waits.rows)))
    turns = np.minimum(members, waits.rows["count"][waits.first]) - 1
    return np.asarray(np.minimum(np.add.reduceat(more, waits.first) - most, turns * most))


def is_slow(moved: Transfers, seconds: Vector, limits: Thresholds) -> MaskMatrix:
    """Return where (key, step) a transfer takes longer by enough to matter; unknown is not slow.

    `seconds` (steps,) are the steps' durations.
    """
    pairs = (
        (limits.least_ratio, limits.least_excess_ratio),
        (limits.certain_ratio, limits.least_lost_ratio),
    )
    slow = [
        (moved.seconds >= ratio * moved.expected) & (moved.excess >= share * seconds)
        for ratio, share in pairs
    ]
    return np.asarray(slow[0] | slow[1])


def detect(
    waits: Waits,
    groups: Mapping[int, Group],
    baseline: Mapping[Key, BaselineCollective],
    steps: Steps,
    limits: Thresholds,
) -> list[Finding]:
    """Return at most one finding, about the slow operation that passed the most bytes.

    It names a rank if the slow groups share one rank that no healthy group has.
    """
    if not len(waits.rows):
        return []
    moved = transfers(waits, baseline, steps)
    slow = is_slow(moved, steps.seconds, limits)
    counts = slow[:, -limits.window_steps :].sum(axis=1)
    proven = is_persistent(slow, limits.window_steps, limits.least_steps)
    proven |= is_certain(slow, moved.seconds, moved.expected, steps.seconds)
    if not proven.any():
        return []
    related = min(limits.least_steps // 2, int(counts[proven].max()))
    slow_keys = [moved.keys[index] for index in np.flatnonzero(counts >= related)]
    # The choice uses a fact that is stable from step to step, over all occasionally slow
    # operations: the finding keeps its subject, whichever operation proves it.
    worst = max(slow_keys, key=lambda key: (baseline[key].bytes, key))
    rank = common_rank(waits, moved, slow_keys, baseline)
    since = first_of_run(slow[moved.keys.index(worst)])
    return [_finding(moved, worst, since, steps, groups, baseline, slow_keys, rank)]


def _finding(
    moved: Transfers,
    worst: Key,
    since: int,
    steps: Steps,
    groups: Mapping[int, Group],
    baseline: Mapping[Key, BaselineCollective],
    slow_keys: list[Key],
    rank: int,
) -> Finding:
    (number, op), index, usual_call = worst, moved.keys.index(worst), baseline[worst]
    now, expected, size = (
        float(np.nanmedian(plane[index, since:]))
        for plane in (moved.seconds, moved.expected, moved.bytes)
    )
    seconds = float(np.median(steps.seconds[since:]))
    first, lost = int(steps.numbers[since]), min(1.0, (now - expected) / seconds)
    speeds = [
        bus_bytes_per_second(Op(op), groups[number].size, *message)
        for message in ((size, now), (usual_call.bytes, usual_call.transfer))
    ]
    suffix = f"; of its members only rank {rank} is in every slow group" if rank >= 0 else ""
    summary = (
        f"{OP_NAMES[op]} in ranks {groups[number].ranks} transfers slowly since step {first}: "
        f"{in_words(now)} a step, baseline {in_words(expected)} for as many bytes "
        f"({times(now / max(expected, 1e-9))}){suffix}; it takes {lost:.0%} of the step more"
    )
    was = f"baseline {in_words(usual_call.transfer)}", f"baseline {size_words(usual_call.bytes)}"
    evidence = (
        Evidence("transfer per step", now, "seconds", was[0], reference=usual_call.transfer),
        Evidence("bytes per step and rank", size, "bytes", was[1], reference=usual_call.bytes),
        Evidence(
            "bus bandwidth",
            float("nan") if speeds[0] is None else speeds[0],
            "bytes per second",
            "unknown" if speeds[1] is None else f"baseline {size_words(speeds[1])} per second",
            reference=float("nan") if speeds[1] is None else speeds[1],
        ),
        Evidence("operations that are slow", len(slow_keys), "count", f"of {len(moved.keys)} seen"),
    )
    return build_finding(
        kind=FindingKind.SLOW_COLLECTIVE,
        rank=rank,
        phase="",
        cause=Cause.SLOW_TRANSFER,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(steps.seconds[since:].sum()),
        severity=now - expected,
        ratio=now / max(expected, 1e-9),
        lost_ratio=lost,
        evidence=evidence,
        subject=subject_of(worst, groups, bytes_of(baseline)),
    )


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
        if sizes[key] / AS_MANY_BYTES <= nbytes <= sizes[key] * AS_MANY_BYTES
    }
    return f"groups of {size} ranks" if len(alike) > 1 else f"ranks {groups[key[0]].ranks}"


def bytes_of(baseline: Mapping[Key, BaselineCollective]) -> dict[Key, float]:
    """Return the bytes that a rank passes in each group and operation."""
    return {key: call.bytes for key, call in baseline.items()}


def common_rank(
    waits: Waits,
    moved: Transfers,
    slow_keys: list[Key],
    baseline: Mapping[Key, BaselineCollective],
) -> int:
    """Return the only rank in all slow groups and in no healthy one with the same operation, or -1.

    A single group without a comparison names no rank.
    """
    row_groups = np.ascontiguousarray(waits.rows["group"])  # rows are in the order of the groups

    def members(group: int) -> set[int]:
        low, high = np.searchsorted(row_groups, (group, group + 1))
        return set(np.unique(waits.rows["rank"][low:high]).tolist())

    slow_groups = {group for group, _ in slow_keys}
    suspects = set.intersection(*map(members, slow_groups))
    for (group, op), seconds in zip(moved.keys, moved.seconds, strict=True):
        alike = [baseline[key].bytes for key in slow_keys if key[1] == op]
        if group in slow_groups or not alike or np.isnan(seconds).all():
            continue
        if baseline.get((group, op), NOTHING).bytes >= max(alike) / AS_MANY_BYTES:
            suspects -= members(group)
    return suspects.pop() if len(suspects) == 1 else NO_RANK
