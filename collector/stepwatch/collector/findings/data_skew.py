"""Gathers for the data skew detector."""

from __future__ import annotations

from stepwatch.collector.detect import data_skew
from stepwatch.collector.detect.finding import Finding

from .scene import Scene


def find(scene: Scene) -> list[Finding]:
    """Ranks whose steps hold more, or fewer, tokens than those of their peers."""
    found = data_skew.detect(scene.window, data_skew.LIMITS)
    return [scene.dated(finding) for finding in found]
