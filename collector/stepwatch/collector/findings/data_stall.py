"""Gathers for the data stall detector."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect import data_stall
from stepwatch.collector.detect.finding import Finding

from .scene import Scene


def find(scene: Scene) -> list[Finding]:
    """A job whose ranks all wait for data."""
    first = scene.beginning
    past = None
    if first:
        rest = first["duration"] - first["checkpoint"] - first["eval"] - first["data"]
        past = data_stall.past_of(first["data"] / np.maximum(rest, 1e-9), data_stall.LIMITS)
    found = data_stall.detect(scene.window, past, data_stall.LIMITS)
    return [scene.dated(finding) for finding in found]
