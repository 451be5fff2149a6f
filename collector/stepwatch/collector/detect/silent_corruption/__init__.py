"""Silent corruption: a replica whose parameters differ from its peers' parameters."""

from stepwatch.collector.detect.registry import Detector, When
from stepwatch.signals.names import FindingKind

from .detector import LIMITS, detect, find

__all__ = ["DETECTORS", "LIMITS", "detect", "find"]

DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.SILENT_CORRUPTION}),
        when=When.ALWAYS,
        order=20,
        find=find,
    ),
)
