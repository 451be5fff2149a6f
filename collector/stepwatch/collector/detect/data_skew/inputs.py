"""Inputs of the data skew detector."""

from __future__ import annotations

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Ranks whose steps hold more, or fewer, tokens than those of their peers."""
    findings = detector.detect(context.window, detector.LIMITS)
    return [context.dated(finding) for finding in findings]
