"""Gathers for the data skew detector."""

from __future__ import annotations

from stepwatch.collector.detect import data_skew
from stepwatch.collector.detect.finding import Finding

from .context import DetectionContext


def find(context: DetectionContext) -> list[Finding]:
    """Ranks whose steps hold more, or fewer, tokens than those of their peers."""
    found = data_skew.detect(context.window, data_skew.LIMITS)
    return [context.dated(finding) for finding in found]
