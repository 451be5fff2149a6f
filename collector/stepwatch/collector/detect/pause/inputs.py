"""Inputs of the pause detector."""

from __future__ import annotations

from stepwatch.collector.detect import hang
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from .detector import LIMITS, detect


def find(context: DetectionContext) -> list[Finding]:
    """A job that makes no progress for long without the shape of a hang."""
    return detect(context.once(hang.stalled), LIMITS)
