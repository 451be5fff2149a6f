"""Gathers for the straggler detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.analysis.newest_steps import newest_window, waits_of
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.job import Attempt
from stepwatch.signals.clock import NANOSECONDS

from . import detector
from .arrival_skew import with_arrival_skew


def find(context: DetectionContext) -> list[Finding]:
    """Ranks whose own work takes longer than that of their peers."""
    attempt = context.attempt
    facts, past = rank_facts(attempt), attempt.baseline.work_of(attempt.ring.world)
    found = detector.detect(context.window, facts, detector.LIMITS, past)
    if not found:
        return []
    collectives = waits_of(attempt, newest_window(attempt))
    return [with_arrival_skew(context.dated(finding), collectives) for finding in found]


def rank_facts(attempt: Attempt) -> detector.RankFacts:
    """CPU and run-queue shares of each rank over the newest readings."""
    cpu, queue = np.full(attempt.world, np.nan), np.full(attempt.world, np.nan)
    for rank, readings in attempt.ranks.usage.items():
        first, last = readings[0], readings[-1]
        seconds = (last.time_ns - first.time_ns) / NANOSECONDS
        if seconds > 0:
            cpu[rank] = (last.cpu_seconds - first.cpu_seconds) / seconds
            queue[rank] = (last.run_queue_seconds - first.run_queue_seconds) / seconds
    return detector.RankFacts(cpu, queue)
