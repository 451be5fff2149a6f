"""Hang: no rank makes progress for longer than the job's phase allows; who did not arrive, and why.

Ages are taken on each node's own monotonic clock, so no two clocks are compared. The rank that did
not arrive is the one that is neither inside a collective nor waiting for a pipeline neighbour.
Where a rank's device is busy, the device says where the rank is (`device`).
"""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import (
    Finding,
)
from stepwatch.signals.records import Phase, ProcessState

from .report import finding_of
from .situation import NOBODY_ASKED, Asked, Missed, RankSituation, missed_collectives
from .thresholds import Thresholds


def detect(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
    asked: Asked = NOBODY_ASKED,
) -> list[Finding]:
    """One finding if nothing moves; `median_step` in seconds, NaN while unknown, and `longest_step`
    that of the attempt so far, NaN before the first step has ended.

    `ranks` leaves out those that have finished. No rank known is no finding: that is for the
    telemetry detector.
    """
    if not ranks:
        return []
    stalled_for = min(situation.moved_age for situation in ranks)
    if stalled_for < allowed_seconds(ranks, median_step, longest_step, limits):
        return []
    missing = [item for item in ranks if not item.waiting and not item.in_collective]
    lacking = missed_collectives(asked.diagnoses)
    culprit = _culprit(ranks, missing, lacking)
    return [
        finding_of(
            ranks=ranks,
            culprit=culprit,
            stalled_for=stalled_for,
            limits=limits,
            asked=asked,
            lacking=lacking,
        )
    ]


def allowed_seconds(
    ranks: list[RankSituation], median_step: float, longest_step: float, limits: Thresholds
) -> float:
    """How long all ranks may make no progress in the phase they are in."""
    if any(item.phase in (Phase.CHECKPOINT, Phase.EVAL) for item in ranks):
        return limits.pause_seconds
    if math.isnan(longest_step):
        return limits.first_step_seconds
    if math.isnan(median_step):
        early = max(limits.early_seconds, limits.step_multiple * longest_step)
        return min(early, limits.first_step_seconds)
    return max(limits.least_seconds, limits.step_multiple * median_step)


def _culprit(
    ranks: list[RankSituation], missing: list[RankSituation], lacking: list[Missed]
) -> RankSituation | None:
    """The rank all others wait for: a dead or stopped one first, else the one that is behind.

    Where the lines do not name one rank (the hooks may not see the trainer's collectives), the
    flight recorders do: `lacking` entered one collective less. A rank that waits may be seen
    blocked in the kernel for a moment; only one that does not wait holds the others up by it.
    """
    for state in (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED):
        for item in ranks:
            if item.process is state:
                return item
    blocked = [
        item
        for item in missing
        if item.process is ProcessState.UNINTERRUPTIBLE and item.host is None
    ]
    if blocked:
        return blocked[0]
    if not missing or len(missing) == len(ranks) > 1:
        behind = {item.rank for item in lacking}
        # A busy device's recorder counts what its host enqueued ahead.
        found = [item for item in ranks if item.rank in behind and item.host is None]
        return found[0] if len(found) == 1 else None
    return max(missing, key=lambda item: (-item.step, item.moved_age))
