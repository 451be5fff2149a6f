"""Detectors: each folder holds one detector's evaluation, its inputs and its thresholds."""

from stepwatch.collector.detect.finding import Evidence, Finding

__all__ = ["Evidence", "Finding"]
