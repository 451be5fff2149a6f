"""Inputs of the pipeline-bubble detector."""

from __future__ import annotations

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """A stage that limits the pipeline, or a schedule that wastes too much."""
    attempt, window = context.attempt, context.window
    if not context.compares_ranks:
        return []
    baseline = context.baseline.work_of(len(window.stage))
    ideal = None if attempt.schedule is None else attempt.schedule.ideal_bubble_ratio
    found = detector.detect(window, baseline, ideal, detector.LIMITS)
    return [context.dated(finding) for finding in found]
