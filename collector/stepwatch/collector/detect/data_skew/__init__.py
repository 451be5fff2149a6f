"""Data skew: a rank trains on persistently more, or fewer, tokens per step than its peers."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect, find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.DATA_SKEW}),
        when=When.PROGRESSING,
        order=30,
        find=find,
        from_steps=True,
    ),
)
