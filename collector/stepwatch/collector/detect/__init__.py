"""Detectors: each is a folder with what it evaluates, where its inputs are, and its thresholds."""

from stepwatch.collector.detect.finding import Evidence, Finding

__all__ = ["Evidence", "Finding"]
