"""Pause: no rank makes progress, and nothing proves a hang: a wait that may be legal.

A rank waits for a download, a database or a lock, or it evaluates or saves without a hook that
recognises it. A pause becomes a hang, which pages, once it has lasted longer than `hang` explains.
Until then it is a ticket.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import NO_RANK, Finding, build_finding
from stepwatch.collector.detect.hang import (
    LIMITS as HANG,
)
from stepwatch.collector.detect.hang import (
    Activity,
    RankSituation,
    Stall,
    cause_of,
    is_interpreter_held,
    stalled,
)
from stepwatch.collector.detect.hang import Thresholds as HangThresholds
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import phase_name

from . import words


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a pause that is worth a ticket; a wait's legal duration is in `hang`."""

    quiet_seconds: float = 8.0
    """Seconds: the limit if others wait, or may, for a rank without a sign of computing. That
    proves no fault, and each second costs a second on all devices. A late batch takes up to five
    seconds in healthy runs, and a fault must be reported within ten.
    """
    least_seconds: float = 240.0
    """Seconds: the limit if no rank waits in a collective and ranks are at work, or there is a
    single process: all ranks evaluate, save or prepare. These pauses take minutes in healthy runs;
    four are worth a look in working hours, since no step is made, and after training the devices
    idle.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a job without progress for long that is not shaped like a hang."""
    limits, explained = context.thresholds(LIMITS), context.thresholds(HANG)
    return detect(context.once(stalled), limits, explained)


def detect(
    stall: Stall | None, limits: Thresholds, explained: HangThresholds = HANG
) -> list[Finding]:
    """Return at most one finding: a stall that did not begin as a hang, and is worth a ticket.

    It stays a finding beyond `Stall.hang_seconds`: the hang found then explains it.
    `explained` holds the hang detector's thresholds.
    """
    if stall is None or stall.hang_seconds <= stall.allowed_seconds:
        return []
    if not stall.outside and stall.answer.unobserved:
        return []  # the blocking rank is not observed
    if stall.seconds < max(_least_seconds(stall, limits, explained), stall.usual_seconds):
        return []
    return [_finding(stall)]


def _least_seconds(stall: Stall, limits: Thresholds, explained: HangThresholds) -> float:
    """Return the stall duration that is worth a ticket, if no earlier wait took longer."""
    quiet = stall.activity is Activity.IDLE
    if stall.marked:  # it may take any time, unless earlier pauses give a limit
        return explained.held_seconds if stall.usual_seconds else explained.pause_seconds
    if stall.over:
        return explained.legal_seconds if quiet else limits.least_seconds
    if not stall.waiting:
        return limits.quiet_seconds if quiet and len(stall.ranks) > 1 else limits.least_seconds
    # A rank that uses a CPU usually computes for the job: an evaluation without a mark.
    computes = bool(stall.outside) and all(
        item.work is None or Work.CPU in item.work for item in stall.outside
    )
    is_locked = any(is_interpreter_held(item) for item in stall.outside)
    return explained.legal_seconds if computes and not is_locked else limits.quiet_seconds


def _finding(stall: Stall) -> Finding:
    holders = holding(stall)
    named = holders[0] if len(holders) == 1 < len(stall.ranks) or stall.over else None
    return build_finding(
        kind=FindingKind.PAUSE,
        cause=_cause(stall, holders),
        summary=words.summary(stall, holders),
        rank=NO_RANK if named is None else named.rank,
        phase="other" if named is None else phase_name(named.phase),
        began_step=min(item.step for item in stall.ranks),
        began_ago_seconds=stall.seconds,
        severity=stall.seconds,
        lost_ratio=_lost_ratio(stall),
        evidence=words.evidence(stall),
    )


def _lost_ratio(stall: Stall) -> float:
    """Return the share of idle devices; unknown if all ranks may be doing their work.

    An outside rank that waits, for a download or a lock, idles like the ranks that wait for it.
    """
    if stall.activity is Activity.IDLE:
        return 1.0
    return len(stall.waiting) / len(stall.ranks) if stall.waiting else math.nan


def holding(stall: Stall) -> list[RankSituation]:
    """Return the ranks that block the job: idle ranks, if others wait for all.

    There are none if all are inside collectives. In a marked pause, or if no rank waits, an idle
    rank may wait for one that runs.
    """
    if stall.activity is Activity.IDLE:
        return stall.idle or stall.outside
    return [item for item in stall.outside if item not in stall.idle] or stall.outside


def _cause(stall: Stall, holders: list[RankSituation]) -> Cause:
    """Return busy if a rank is at work, or why it does not arrive if it is known to be idle."""
    if not holders:
        return Cause.UNKNOWN
    if stall.activity is Activity.UNKNOWN or (not stall.waiting and not stall.over):
        return Cause.BUSY if stall.activity is Activity.RUNNING else Cause.UNKNOWN
    return cause_of(holders[0], stall.diagnostics.diagnoses.get(holders[0].rank))[0]
