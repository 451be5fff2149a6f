"""Inputs for the data skew detector."""

from __future__ import annotations

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks whose steps hold more, or fewer, tokens than their peers' steps."""
    findings = detector.detect(context.window, context.thresholds(detector.LIMITS))
    return [context.dated(finding) for finding in findings]
