"""Gathers for the pipeline-bubble detector."""

from __future__ import annotations

from stepwatch.collector.detect import pipeline_bubble
from stepwatch.collector.detect.finding import Finding

from .context import DetectionContext


def find(context: DetectionContext) -> list[Finding]:
    """A stage that limits the pipeline, or a schedule that wastes too much."""
    attempt, window = context.attempt, context.window
    past = attempt.baseline.work_of(len(window.stage))
    ideal = None if attempt.schedule is None else attempt.schedule.ideal_bubble_ratio
    found = pipeline_bubble.detect(window, past, ideal, pipeline_bubble.LIMITS)
    return [context.dated(finding) for finding in found]
