"""Memory growth: a rank, or all of them, will run out of memory."""

from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, History, detect
from .inputs import find

__all__ = ["DETECTORS", "LIMITS", "History", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.MEMORY_GROWTH}),
        when=When.ALWAYS,
        order=30,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
)
