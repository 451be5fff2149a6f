"""Inputs for the pause detector."""

from __future__ import annotations

from stepwatch.collector.detect import hang
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from .detector import LIMITS, detect


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a job without progress for long that is not shaped like a hang."""
    limits, explained = context.thresholds(LIMITS), context.thresholds(hang.LIMITS)
    return detect(context.once(hang.stalled), limits, explained)
