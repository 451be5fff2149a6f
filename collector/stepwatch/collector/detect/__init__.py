"""Detectors: pure functions from a window of arrays to findings, one per file."""

from stepwatch.collector.detect.finding import Evidence, Finding

__all__ = ["Evidence", "Finding"]
