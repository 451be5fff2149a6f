"""Inputs of the data stall detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """A job whose ranks all wait for data."""
    first = context.early_baseline
    baseline = None
    if first:
        rest = first["duration"] - first["checkpoint"] - first["eval"] - first["data"]
        baseline = detector.baseline_of(first["data"] / np.maximum(rest, 1e-9), detector.LIMITS)
    found = detector.detect(context.window, baseline, detector.LIMITS)
    return [context.dated(finding) for finding in found]
