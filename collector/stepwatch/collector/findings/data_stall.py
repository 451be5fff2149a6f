"""Gathers for the data stall detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect import data_stall
from stepwatch.collector.detect.finding import Finding

from .context import DetectionContext


def find(context: DetectionContext) -> list[Finding]:
    """A job whose ranks all wait for data."""
    first = context.early_baseline
    past = None
    if first:
        rest = first["duration"] - first["checkpoint"] - first["eval"] - first["data"]
        past = data_stall.past_of(first["data"] / np.maximum(rest, 1e-9), data_stall.LIMITS)
    found = data_stall.detect(context.window, past, data_stall.LIMITS)
    return [context.dated(finding) for finding in found]
