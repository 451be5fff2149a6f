"""Inputs of the telemetry detector."""

from __future__ import annotations

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Nodes that should send and are stale."""
    attempt = context.attempt
    if max(context.staleness.values(), default=0.0) < detector.LIMITS.least_seconds:
        return []
    step = attempt.step_history.complete_until(attempt.world)
    every = {node: attempt.flush_seconds(node) for node in context.staleness}
    return detector.detect(context.staleness, step, detector.LIMITS, every)
