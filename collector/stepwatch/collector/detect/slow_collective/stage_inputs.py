"""Inputs of the look at transfers between pipeline stages."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import (
    STAGE_WORK,
    known_stages,
    self_time,
)
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.detect.wait_graph import members_of
from stepwatch.collector.state.step_clock import collectives_on
from stepwatch.signals.records import Op

from .detector import LIMITS
from .stage_transfers import Pair, Waiting, detect_between_stages


def find_between_stages(context: DetectionContext) -> list[Finding]:
    """Pipeline stages that wait for transfers, not for each other's work."""
    waiting = _waiting(context)
    if waiting is None:
        return []
    found = detect_between_stages(waiting, LIMITS)
    if found:  # only a finding is worth a look at every pair of ranks
        with_sends = waiting._replace(sends=_sends(context, waiting))
        found = detect_between_stages(with_sends, LIMITS)
    return [context.dated(with_clock(context, finding)) for finding in found]


def _waiting(context: DetectionContext) -> Waiting | None:
    """What ranks wait for neighbours; None without stages, or without a baseline."""
    window = context.window
    stages = known_stages(window)
    if len(stages) < 2 or not context.compares_ranks:
        return None
    chosen = np.flatnonzero(usable_steps(window))
    baseline = context.baseline.work_of(len(window.stage))
    early = context.early_baseline.get("pipeline_wait")
    if early is None or len(chosen) < LIMITS.window_steps:
        return None
    if any(name not in baseline or np.isnan(baseline[name]).any() for name in STAGE_WORK):
        return None
    newest = float(window.planes["pipeline_wait"][chosen[-1]].mean(dtype=np.float64))
    if newest < LIMITS.wait_ratio * float(np.median(early)):
        return None  # a look at one row, which is nearly always enough
    part = window.at(chosen)
    before = np.sum([baseline[name] for name in STAGE_WORK], axis=0)[None, :]
    longer = np.maximum(self_time(part, STAGE_WORK) - before, 0.0)
    # The other stages wait for the slowest rank of a stage, not for its usual one.
    more = [longer[:, window.stage == number].max(axis=1) for number in stages]
    return Waiting(
        numbers=part.steps,
        seconds=step_seconds(part),
        wait=part.planes["pipeline_wait"].mean(axis=1, dtype=np.float64),
        more=np.sum(more, axis=0),
        usual=float(np.median(early)),
        sends={},
        ranks={number: np.flatnonzero(window.stage == number).tolist() for number in stages},
    )


def _sends(context: DetectionContext, waiting: Waiting) -> dict[Pair, float]:
    """Seconds per step that ranks of each pair of stages were blocked in sends to each other.

    Who sends over a slow way is blocked until it is over; who only receives late data is not.
    """
    stage_of = {rank: stage for stage, ranks in waiting.ranks.items() for rank in ranks}
    calls = collectives_on(context.attempt, context.window.clock)
    first, last = (int(waiting.numbers[at]) for at in (-LIMITS.window_steps, -1))
    rows = calls.of_steps(first, last)
    rows = rows[rows["op"] == Op.SEND]
    numbers, where = np.unique(rows["group"], return_inverse=True)
    blocked = np.bincount(where, weights=rows["exposed"], minlength=len(numbers))
    found: dict[Pair, float] = {}
    for number, seconds in zip(numbers.tolist(), blocked.tolist(), strict=True):
        group = calls.groups.get(number)
        members = None if group is None else members_of(group.ranks)
        if members is None or len(members) != 2 or not members <= stage_of.keys():
            continue
        low, high = sorted(stage_of[rank] for rank in members)
        if high == low + 1:
            found[low, high] = max(found.get((low, high), 0.0), seconds / (last - first + 1))
    return found
