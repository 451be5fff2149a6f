"""Slow collective: an operation in a group whose transfer takes clearly longer than its baseline.

Transfer is what the last arriver is blocked for, so waiting for a straggler is none of it. Messages
may grow: a transfer may take as much longer as there are more bytes or more calls.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import size as size_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.collective_timing import Waits, bus_bytes_per_second
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective
from stepwatch.signals.arrays import Mask, Vector
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import OP_NAMES, Op

from .groups import bytes_of, common_rank, subject_of
from .thresholds import Thresholds
from .transfers import NOTHING, Key, Steps, Transfers, is_slow, transfers


def detect(
    waits: Waits,
    groups: Mapping[int, Group],
    baseline: Mapping[Key, BaselineCollective],
    steps: Steps,
    limits: Thresholds,
) -> list[Finding]:
    """At most one finding, about the operation that passed most bytes of those that are slow now.

    It names a rank where the slow groups have one in common that no healthy group has.
    """
    if len(steps.numbers) < limits.certain_few_steps or not len(waits.rows):
        return []
    moved = transfers(waits, baseline, steps)
    slow = is_slow(moved, steps, limits)
    recent = slow[:, -limits.window_steps :]
    counts = recent.sum(axis=1)
    proven = (counts >= limits.least_steps) & recent[:, -1] | _is_certain(moved, steps, limits)
    if not proven.any():
        return []
    related = min(limits.related_steps, int(counts[proven].max()))
    slow_keys = [moved.keys[index] for index in np.flatnonzero(counts >= related)]
    # Chosen by a fact that does not change from step to step, of all that are slow now and then: so
    # the finding keeps its subject, whichever of them proves it.
    worst = max(slow_keys, key=lambda key: (baseline[key].bytes, key))
    rank = common_rank(waits, moved, slow_keys, baseline, limits)
    worst_index = moved.keys.index(worst)
    return [
        _finding(
            moved=moved,
            slow=slow[worst_index],
            index=worst_index,
            steps=steps,
            groups=groups,
            baseline=baseline,
            slow_keys=slow_keys,
            rank=rank,
        )
    ]


def is_slow_now(
    waits: Waits, baseline: Mapping[Key, BaselineCollective], steps: Steps, limits: Thresholds
) -> bool:
    """Whether an operation is slow in the newest of `steps`; without one there is no finding.

    Whether a step is slow depends on no other step, so the newest alone are enough to look at.
    """
    if not len(waits.rows):  # the step made no collective, or they are not here yet
        return False
    slow = is_slow(transfers(waits, baseline, steps), steps, limits)
    return bool(slow[:, -1:].any())


def may_be_slow(
    waits: Waits, baseline: Mapping[Key, BaselineCollective], seconds: float, limits: Thresholds
) -> bool:
    """Whether `is_slow_now` may say yes of a step of so many `seconds`: a transfer is a large
    enough part of it, and longer by enough than its baseline, the least that is expected."""
    part = min(limits.least_excess_ratio, limits.certain_excess_ratio)
    ratio = min(limits.least_ratio, limits.certain_ratio)
    transfer_s = waits.transfer[waits.first]
    candidates = np.flatnonzero(transfer_s >= part * seconds)
    if len(candidates) > _FEW:
        return True
    heads = waits.rows[waits.first[candidates]]
    keys = zip(heads["group"].tolist(), heads["op"].tolist(), strict=True)
    return any(
        transfer >= ratio * baseline.get(key, NOTHING).transfer
        for key, transfer in zip(keys, transfer_s[candidates].tolist(), strict=True)
    )


_FEW = 64
"""Beyond so many operations to look at each takes longer than at all of them together."""


def _is_certain(moved: Transfers, steps: Steps, limits: Thresholds) -> Mask:
    """Operations (keys,) that take far longer in the newest few steps, where these are long."""
    fewest = fewest_long(steps.seconds, limits)
    if fewest is None:
        return np.zeros(len(moved.keys), dtype=np.bool_)
    far_limits = limits._replace(
        least_ratio=limits.certain_ratio, certain_excess_ratio=limits.least_excess_ratio
    )
    return np.asarray(is_slow(moved, steps, far_limits)[:, -fewest:].all(axis=1))


def fewest_long(seconds: Vector, limits: Thresholds) -> int | None:
    """How many of the newest steps, of these `seconds`, are enough; None where they are short."""
    for steps, least in (
        (limits.certain_few_steps, limits.certain_few_seconds),
        (limits.certain_long_steps, limits.certain_long_seconds),
    ):
        if len(seconds) >= steps and float(seconds[-steps:].sum()) >= least:
            return steps
    return None


def _finding(
    moved: Transfers,
    slow: Mask,
    index: int,
    steps: Steps,
    groups: Mapping[int, Group],
    baseline: Mapping[Key, BaselineCollective],
    slow_keys: list[Key],
    rank: int,
) -> Finding:
    number, op = moved.keys[index]
    group, usual_call = groups[number], baseline[moved.keys[index]]
    since = first_of_run(slow)
    now, expected, size = (
        float(np.nanmedian(plane[index, since:]))
        for plane in (moved.seconds, moved.expected, moved.bytes)
    )
    seconds = float(np.median(steps.seconds[since:]))
    first, lost = int(steps.numbers[since]), min(1.0, (now - expected) / seconds)
    subject = f"{OP_NAMES[op]} in ranks {group.ranks}"
    speeds = [
        bus_bytes_per_second(Op(op), group.size, *message)
        for message in ((size, now), (usual_call.bytes, usual_call.transfer))
    ]
    suffix = f"; of its members only rank {rank} is in every slow group" if rank >= 0 else ""
    summary = (
        f"{subject} transfers slowly since step {first}: {in_words(now)} a step, "
        f"baseline {in_words(expected)} for as many bytes "
        f"({times(now / max(expected, 1e-9))}){suffix}; it takes {lost:.0%} of the step more"
    )
    evidence = (
        Evidence("transfer per step", now, "seconds", f"baseline {in_words(usual_call.transfer)}"),
        Evidence(
            "bytes per step and rank", size, "bytes", f"baseline {size_words(usual_call.bytes)}"
        ),
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
        subject=subject_of(moved.keys[index], groups, bytes_of(baseline)),
    )
