"""Slow collective: an operation whose transfer takes longer than its baseline."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, Steps, detect
from .inputs import find

__all__ = ["DETECTORS", "LIMITS", "Steps", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.SLOW_COLLECTIVE}),
        when=When.PROGRESSING,
        order=40,
        find=find,
    ),
)
