"""Slow collective: an operation in a group whose transfer takes clearly longer than its baseline.

Transfer is what the last arriver is blocked for, so waiting for a straggler is none of it. Where
members are late in turns it is too high (see `collectives`): all of them then work longer, too, and
that much is taken off. Messages may grow: a transfer may take as much longer as there are more
bytes or more calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import size as size_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.collective_timing import Waits, bus_bytes_per_second
from stepwatch.collector.state.trackers.baseline import BaselineCollective
from stepwatch.collector.state.trackers.collective_records import Group
from stepwatch.signals.arrays import Floats, Integers, Mask, MaskMatrix, Matrix, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import OP_NAMES, Op
from stepwatch.signals.thresholds import load

Key = tuple[int, int]


class Thresholds(NamedTuple):
    """When a transfer is slow; see `thresholds.toml`."""

    window_steps: int
    least_steps: int
    least_ratio: float
    least_excess_ratio: float
    certain_ratio: float
    certain_excess_ratio: float
    certain_long_steps: int
    certain_long_seconds: float
    certain_few_steps: int
    certain_few_seconds: float
    related_steps: int
    clearing_bytes_ratio: float
    wait_ratio: float
    certain_wait_ratio: float
    certain_wait_excess_ratio: float
    blocked_ratio: float
    lasting_ratio: float
    lasting_work_ratio: float
    lasting_lost_ratio: float
    lasting_rest_sure: float
    stands_out: float
    elsewhere_seconds: float
    elsewhere_jobs: int
    elsewhere_work_ratio: float
    elsewhere_seen_share: float
    always_share: float
    always_seconds: float
    always_buckets: float
    most_share: float
    most_share_seconds: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


class Steps(NamedTuple):
    """The evaluated steps, in rising order, and how much longer each rank works than its baseline.

    `seconds` (steps,) is the length of each; `more_work` (steps, ranks) own seconds beyond those of
    the run's first steps, NaN where unknown; `slowdown` (steps,) what most ranks work longer by, at
    least 1: on a busy host transfers take longer, too.
    """

    numbers: Integers
    seconds: Vector
    slowdown: Vector
    more_work: Matrix


class Transfers(NamedTuple):
    """Operations by step: planes (keys, steps) of seconds and bytes, NaN where unknown.

    `expected` is what the baseline gives, for these bytes and calls; `keys` names (group, op).
    """

    keys: list[Key]
    seconds: Matrix
    expected: Matrix
    more_work: Matrix
    bytes: Matrix


def detect(
    found: Waits,
    groups: Mapping[int, Group],
    baseline: Mapping[Key, BaselineCollective],
    steps: Steps,
    limits: Thresholds,
) -> list[Finding]:
    """At most one finding, about the operation that passed most bytes of those that are slow now.

    It names a rank where the slow groups have one in common that no healthy group has.
    """
    if len(steps.numbers) < limits.certain_few_steps or not len(found.rows):
        return []
    moved = transfers(found, baseline, steps)
    slow = _is_slow(moved, steps, limits)
    recent = slow[:, -limits.window_steps :]
    counts = recent.sum(axis=1)
    proven = (counts >= limits.least_steps) & recent[:, -1] | _is_certain(moved, steps, limits)
    if not proven.any():
        return []
    related = min(limits.related_steps, int(counts[proven].max()))
    slow_keys = [moved.keys[at] for at in np.flatnonzero(counts >= related)]
    # Chosen by a fact that does not change from step to step, of all that are slow now and then: so
    # the finding keeps its subject, whichever of them proves it.
    worst = max(slow_keys, key=lambda key: (baseline[key].bytes, key))
    rank = _common_rank(found, moved, slow_keys, baseline, limits)
    at = moved.keys.index(worst)
    return [
        _finding(
            moved=moved,
            slow=slow[at],
            at=at,
            steps=steps,
            groups=groups,
            baseline=baseline,
            slow_keys=slow_keys,
            rank=rank,
        )
    ]


def is_slow_now(
    found: Waits, baseline: Mapping[Key, BaselineCollective], steps: Steps, limits: Thresholds
) -> bool:
    """Whether an operation is slow in the newest of `steps`; without one there is no finding.

    Whether a step is slow depends on no other step, so the newest alone are enough to look at.
    """
    if not len(found.rows):  # the step made no collective, or they are not here yet
        return False
    slow = _is_slow(transfers(found, baseline, steps), steps, limits)
    return bool(slow[:, -1:].any())


def may_be_slow(
    found: Waits, baseline: Mapping[Key, BaselineCollective], seconds: float, limits: Thresholds
) -> bool:
    """Whether `is_slow_now` may say yes of a step of so many `seconds`: a transfer is a large
    enough part of it, and longer by enough than its baseline, the least that is expected."""
    part = min(limits.least_excess_ratio, limits.certain_excess_ratio)
    ratio = min(limits.least_ratio, limits.certain_ratio)
    taken = found.transfer[found.first]
    far = np.flatnonzero(taken >= part * seconds)
    if len(far) > _FEW:
        return True
    heads = found.rows[found.first[far]]
    keys = zip(heads["group"].tolist(), heads["op"].tolist(), strict=True)
    return any(
        each >= ratio * baseline.get(key, _NOTHING).transfer
        for key, each in zip(keys, taken[far].tolist(), strict=True)
    )


_FEW = 64
"""Beyond so many operations to look at each takes longer than at all of them together."""


def transfers(found: Waits, baseline: Mapping[Key, BaselineCollective], steps: Steps) -> Transfers:
    """The operations of `steps`, beside what their baseline gives."""
    heads, seconds = found.rows[found.first], found.transfer[found.first]
    numbers = heads["group"].astype(np.int64) << 16 | heads["op"]
    names, key = np.unique(numbers, return_inverse=True)
    keys = [(name >> 16, name & 0xFFFF) for name in names.tolist()]
    before = np.array([baseline.get(each, _NOTHING) for each in keys], dtype=np.float64)[key]
    step = np.searchsorted(steps.numbers, heads["step"])
    inside = step < len(steps.numbers)
    inside[inside] &= steps.numbers[step[inside]] == heads["step"][inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.maximum(heads["bytes"] / before[:, 1], heads["count"] / before[:, 2])
    expected = before[:, 0] * np.fmax(1.0, grown)

    def plane(values: Floats) -> Matrix:
        filled = np.full((len(keys), len(steps.numbers)), np.nan)
        filled[key[inside], step[inside]] = values[inside]
        return filled

    work = _more_work(found, steps, step, inside)
    return Transfers(keys, plane(seconds), plane(expected), plane(work), plane(heads["bytes"]))


_NOTHING = BaselineCollective(float("nan"), float("nan"), float("nan"))


def _more_work(found: Waits, steps: Steps, step: Integers, inside: Mask) -> Vector:
    """Per (group, op, step) the most that lateness in turns adds to the least wait.

    The member that works most longer waits for the others only, each of which may be the last in
    one call. Of four members that work 1, 1, 0, 0 s longer, in two calls or more, it is 1 s; where
    one alone does, it is nothing: all others wait for it.
    """
    if not len(found.first):
        return np.zeros(0)
    rows = found.rows
    of_row = np.where(inside, step, 0)[found.cell]
    more = np.where(inside[found.cell], steps.more_work[of_row, rows["rank"]], np.nan)
    more = np.maximum(more, 0.0)
    most = np.maximum.reduceat(more, found.first)
    members = np.diff(np.append(found.first, len(rows)))
    turns = np.minimum(members, rows["count"][found.first]) - 1
    return np.asarray(np.minimum(np.add.reduceat(more, found.first) - most, turns * most))


def _is_slow(moved: Transfers, steps: Steps, limits: Thresholds) -> MaskMatrix:
    """Where (key, step) a transfer takes longer by enough to matter; unknown is not slow."""
    expected = moved.expected * steps.slowdown
    excess = moved.seconds - expected
    with np.errstate(invalid="ignore"):
        clear = (moved.seconds >= limits.least_ratio * expected) & (
            excess >= limits.least_excess_ratio * steps.seconds
        )
        certain = (moved.seconds >= limits.certain_ratio * expected) & (
            excess >= limits.certain_excess_ratio * steps.seconds
        )
        return np.asarray((clear | certain) & (excess >= moved.more_work))


def _is_certain(moved: Transfers, steps: Steps, limits: Thresholds) -> Mask:
    """Operations (keys,) that take far longer in the newest few steps, where these are long."""
    fewest = fewest_long(steps.seconds, limits)
    if fewest is None:
        return np.zeros(len(moved.keys), dtype=np.bool_)
    far = limits._replace(
        least_ratio=limits.certain_ratio, certain_excess_ratio=limits.least_excess_ratio
    )
    return np.asarray(_is_slow(moved, steps, far)[:, -fewest:].all(axis=1))


def fewest_long(seconds: Vector, limits: Thresholds) -> int | None:
    """How many of the newest steps, of these `seconds`, are enough; None where they are short."""
    for steps, least in (
        (limits.certain_few_steps, limits.certain_few_seconds),
        (limits.certain_long_steps, limits.certain_long_seconds),
    ):
        if len(seconds) >= steps and float(seconds[-steps:].sum()) >= least:
            return steps
    return None


def subject_of(key: Key, groups: Mapping[int, Group], known: Mapping[Key, float]) -> str:
    """What a finding is about: `ranks 0-7`, or, where other groups of that size pass about as many
    bytes by the same operation, `groups of 8 ranks`.

    On a slow network the tensor groups of a job are slow in turns, and this is one incident,
    whichever of them proves it; its summary names that one. `known` are the bytes of all that are.
    """
    size = groups[key[0]].size
    alike = {
        number
        for (number, op), each in known.items()
        if op == key[1] and number in groups and groups[number].size == size
        if known[key] / _AS_MANY_BYTES <= each <= known[key] * _AS_MANY_BYTES
    }
    return f"groups of {size} ranks" if len(alike) > 1 else f"ranks {groups[key[0]].ranks}"


_AS_MANY_BYTES = 2.0


def bytes_of(baseline: Mapping[Key, BaselineCollective]) -> dict[Key, float]:
    """Bytes that a rank passes in each group and operation."""
    return {key: call.bytes for key, call in baseline.items()}


def _common_rank(
    found: Waits,
    moved: Transfers,
    slow_keys: list[Key],
    baseline: Mapping[Key, BaselineCollective],
    limits: Thresholds,
) -> int:
    """The only rank that all slow groups have and no healthy one of the same operation; -1: none.

    One group alone, with nothing to compare it with, names no rank.
    """
    members = _members(found)
    suspects = set.intersection(*(members[group] for group, _ in slow_keys))
    slow_groups = {group for group, _ in slow_keys}
    for key in moved.keys:
        group, op = key
        alike = [baseline[other].bytes for other in slow_keys if other[1] == op]
        comparable = key in baseline and not np.isnan(moved.seconds[moved.keys.index(key)]).all()
        if group in slow_groups or not alike or not comparable:
            continue
        if baseline[key].bytes >= limits.clearing_bytes_ratio * max(alike):
            suspects -= members[group]
    return suspects.pop() if len(suspects) == 1 else NO_RANK


def _members(found: Waits) -> dict[int, set[int]]:
    pairs = np.unique(
        np.stack([found.rows["group"].astype(np.int64), found.rows["rank"].astype(np.int64)]),
        axis=1,
    )
    numbers, starts = np.unique(pairs[0], return_index=True)
    parts = np.split(pairs[1], starts[1:])
    return {
        number: set(part.tolist()) for number, part in zip(numbers.tolist(), parts, strict=True)
    }


def _finding(
    moved: Transfers,
    slow: Mask,
    at: int,
    steps: Steps,
    groups: Mapping[int, Group],
    baseline: Mapping[Key, BaselineCollective],
    slow_keys: list[Key],
    rank: int,
) -> Finding:
    number, op = moved.keys[at]
    group, before = groups[number], baseline[moved.keys[at]]
    since = first_of_run(slow)
    now, expected, size = (
        float(np.nanmedian(plane[at, since:]))
        for plane in (moved.seconds, moved.expected, moved.bytes)
    )
    seconds = float(np.median(steps.seconds[since:]))
    first, lost = int(steps.numbers[since]), min(1.0, (now - expected) / seconds)
    subject = f"{OP_NAMES[op]} in ranks {group.ranks}"
    speeds = [
        bus_bytes_per_second(Op(op), group.size, *each)
        for each in ((size, now), (before.bytes, before.transfer))
    ]
    who = f"; of its members only rank {rank} is in every slow group" if rank >= 0 else ""
    summary = (
        f"{subject} transfers slowly since step {first}: {in_words(now)} a step, "
        f"baseline {in_words(expected)} for as many bytes "
        f"({times(now / max(expected, 1e-9))}){who}; it takes {lost:.0%} of the step more"
    )
    evidence = (
        Evidence("transfer per step", now, "seconds", f"baseline {in_words(before.transfer)}"),
        Evidence("bytes per step and rank", size, "bytes", f"baseline {size_words(before.bytes)}"),
        Evidence(
            "bus bandwidth",
            float("nan") if speeds[0] is None else speeds[0],
            "bytes per second",
            "unknown" if speeds[1] is None else f"baseline {size_words(speeds[1])} per second",
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
        subject=subject_of(moved.keys[at], groups, bytes_of(baseline)),
    )
