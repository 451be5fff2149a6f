"""Slow collective: an operation in a group whose transfer takes clearly longer than its baseline.

The transfer is the last arriver's blocked time, so waiting for a straggler is not part of it.
Messages may grow: a transfer may grow in proportion to its bytes or calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import size as size_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.collective_timing import (
    Waits,
    bus_bytes_per_second,
)
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
    """Return at most one finding, about the slow operation that passed the most bytes.

    It names a rank if the slow groups share one rank that no healthy group has.
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
    # The choice uses a fact that is stable from step to step, over all occasionally slow
    # operations: the finding keeps its subject, whichever operation proves it.
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
    """Return whether an operation is slow in the newest of `steps`; if not, there is no finding.

    A step's slowness does not depend on other steps, so the newest step is enough.
    """
    if not len(waits.rows):  # the step has no collective, or its records have not arrived
        return False
    slow = is_slow(transfers(waits, baseline, steps), steps, limits)
    return bool(slow[:, -1:].any())


def may_be_slow(
    waits: Waits, baseline: Mapping[Key, BaselineCollective], seconds: float, limits: Thresholds
) -> bool:
    """Return whether `is_slow_now` may be true for a step that takes `seconds`.

    A transfer must be a large enough part of the step, and longer than its baseline, the minimum
    expectation, by enough.
    """
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
"""With more operations than this, checking each one costs more than evaluating all together."""


def _is_certain(moved: Transfers, steps: Steps, limits: Thresholds) -> Mask:
    """Return the operations (keys,) that take far longer in the newest few steps.

    These steps must be long enough together.
    """
    fewest = fewest_long(steps.seconds, limits)
    if fewest is None:
        return np.zeros(len(moved.keys), dtype=np.bool_)
    far_limits = replace(
        limits, least_ratio=limits.certain_ratio, certain_excess_ratio=limits.least_excess_ratio
    )
    return np.asarray(is_slow(moved, steps, far_limits)[:, -fewest:].all(axis=1))


def fewest_long(seconds: Vector, limits: Thresholds) -> int | None:
    """Return how many of the newest steps, given their `seconds`, are enough.

    The result is None if they are short.
    """
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
