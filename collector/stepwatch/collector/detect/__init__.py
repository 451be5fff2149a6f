"""Detectors: pure functions from a window of arrays to findings, one per file."""

from .finding import Evidence, Finding

__all__ = ["Evidence", "Finding"]
