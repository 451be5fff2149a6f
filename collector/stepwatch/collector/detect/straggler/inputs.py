"""Inputs of the straggler detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.newest_steps import newest_window, waits_of
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.signals.clock import NANOSECONDS

from .arrival_skew import with_arrival_skew
from .cause import RankFacts
from .detector import detect
from .thresholds import LIMITS


def find(context: DetectionContext) -> list[Finding]:
    """Ranks whose self time is longer than that of their peers."""
    attempt = context.attempt
    if not context.compares_ranks:
        return []
    facts, baseline = rank_facts(attempt), context.baseline.work_of(attempt.ring.world)
    found = detect(context.window, facts, LIMITS, baseline)
    if not found:
        return []
    collectives = waits_of(attempt, newest_window(attempt))
    return [
        with_clock(context, with_arrival_skew(context.dated(finding), collectives))
        for finding in found
    ]


def rank_facts(attempt: Attempt) -> RankFacts:
    """CPU and run-queue shares of each rank over the newest readings."""
    nanoseconds, cpu, queue = attempt.ranks.usage.growth()
    seconds = np.where(nanoseconds > 0, nanoseconds / NANOSECONDS, np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        return RankFacts(cpu / seconds, queue / seconds)
