"""Inputs of the rank-failed detector."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.lifecycle import Lifecycle
from stepwatch.signals.records import LifecycleEvent, phase_name

from . import detector

_NOT_FINISHED = (LifecycleEvent.FAILURE, LifecycleEvent.INTERRUPT)


def find(context: DetectionContext) -> list[Finding]:
    """The first rank that failed, once no earlier one can turn up."""
    attempt = context.attempt
    ends = rank_ends(attempt)
    received = [
        attempt.states[end.rank].received_monotonic_s for end in ends if end.rank in attempt.states
    ]
    waited = context.now_s - min(received, default=context.now_s)
    if len(ends) < attempt.world and waited < detector.LIMITS.settle_seconds:
        return []
    preempted = _is_preempted(attempt)
    return detector.detect(ends, attempt.world, preempted, context.wall_s, detector.LIMITS)


def _is_preempted(attempt: Attempt) -> bool:
    """Whether a notice of preemption still held when the newest step ended."""
    oldest = attempt.newest_s - detector.LIMITS.preempted_seconds
    stops = (fact for fact in attempt.lifecycle if fact.event is LifecycleEvent.PREEMPTION)
    return any(fact.at >= oldest for fact in stops)


def rank_ends(attempt: Attempt) -> list[detector.RankEnd]:
    """Ranks of `attempt` that ended in any way."""
    failures = {fact.rank: fact for fact in attempt.lifecycle if fact.event in _NOT_FINISHED}
    seen = np.flatnonzero(attempt.ranks.rows["gone_ns"]).tolist()
    ends = []
    for rank in sorted({*failures, *seen} & attempt.states.keys()):
        failure, view = failures.get(rank), attempt.states[rank]
        gone_at = attempt.gone_at(rank)
        if failure is None and math.isnan(gone_at):
            continue
        ends.append(
            detector.RankEnd(
                rank=rank,
                step=int(view.row["step"]),
                phase=phase_name(int(view.row["phase"])),
                gone_at=gone_at,
                exit_code=int(view.row["exit_code"]),
                failed_at=failure.at if failure is not None else math.nan,
                failure=_words(failure) if failure is not None else "",
                finished=attempt.ended.get(rank) is LifecycleEvent.FINISH,
            )
        )
    return ends


def _words(end: Lifecycle) -> str:
    """The exception that a rank reported; earlier versions call an interruption a failure."""
    interrupted = end.event is LifecycleEvent.INTERRUPT
    return detector.INTERRUPT if interrupted else end.text or "an exception"
